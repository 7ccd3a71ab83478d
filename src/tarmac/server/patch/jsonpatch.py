"""JSON patch (RFC 6902) with the deviations of Kubernetes.

Differences from the RFC that clients rely on: `replace` of a missing object member adds it, negative indexes count from
the end, `test` of a missing member against null passes, and the document as a whole can be replaced or tested but not
removed. Containers are copied along the path before their first change, so the input stays unmodified. A `copy`
operation makes a deep copy, so no part of the document is ever in two places.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.decode import strictness
from tarmac.api.decode.extent import MAX_VALUES, count_values
from tarmac.api.decode.findings import go_kind, show
from tarmac.api.decode.jsontext import Parsed
from tarmac.api.status import BadRequest, Invalid, TooLarge
from tarmac.base.digits import whole_number

MAX_OPERATIONS = 10_000
_MEMBERS = frozenset({"op", "path", "from", "value"})
_MAX_COPIED_BYTES = 1_500_000  # an object beyond this size could not be stored
_MAX_STEPS = 1000  # maximum depth of a path

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


class _DoesNotApply(Exception):
    """An operation that is impossible on this document."""


def apply_json_patch(document: Any, patch: Any) -> Any:
    """Return the patched document. Raises BadRequest for a malformed patch, Invalid for one that does not apply."""
    operations = _operations(patch)
    work = _Work(document)
    try:
        for operation in operations:
            work.run(operation)
    except _DoesNotApply as error:
        raise rejected() from error
    return work.root


def notes_on_operations(parsed: Parsed) -> list[str]:
    """Return notes on duplicate keys in the text of a patch, and on unknown members of operations."""
    operations: list[dict[str, Any] | None] = parsed.value or []
    unknown = [(index, name) for index, each in enumerate(operations) for name in each or () if name not in _MEMBERS]
    if parsed.pairs is not None:
        found = strictness.repeated_fields(parsed.pairs, unknown)
    else:
        found = [f'unknown field "{show(path)}"' for path in unknown]
    return [f"json patch {note}" for note in found]


def rejected() -> Invalid:
    """Return Kubernetes' error for a patch that is well-formed but cannot be applied."""
    return Invalid("the server rejected our request due to an error in our request", details={})


def _operations(patch: Any) -> list[dict[str, Any]]:
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise _undecodable(patch, "[]handlers.jsonPatchOp")
    for operation in patch:
        if operation is not None and not isinstance(operation, dict):
            raise _undecodable(operation, "handlers.jsonPatchOp")
        for name in ("op", "path", "from"):
            text = (operation or {}).get(name)
            if text is not None and not isinstance(text, str):
                raise BadRequest(
                    f"error decoding patch: json: cannot unmarshal {go_kind(text)} "
                    f"into Go struct field jsonPatchOp.{name} of type string"
                )
    if len(patch) > MAX_OPERATIONS:
        raise TooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(patch)}"
        )
    return [operation or {} for operation in patch]


def _undecodable(value: Any, type_name: str) -> BadRequest:
    return BadRequest(
        f"error decoding patch: json: cannot unmarshal {go_kind(value)} into Go value of type {type_name}"
    )


class _Work:
    """One document being patched; tracks the containers that are already private copies."""

    def __init__(self, document: Any) -> None:
        self.root = document
        self._private: dict[int, Any] = {}  # id -> container; holding the container prevents reuse of its id
        self._copied_bytes = 0
        self._copied_values = 0

    def run(self, operation: dict[str, Any]) -> None:
        """Execute one operation."""
        path = _required(operation, "path")
        match operation.get("op"):
            case "add":
                self._add(path, operation.get("value"))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, operation.get("value"))
            case "move":
                # Removed first: indexes in the target path count without the moved item (RFC 6902, section 4.4).
                value = self._remove(_required(operation, "from"))
                self._add(path, value)
            case "copy":
                self._copy(_required(operation, "from"), path)
            case "test":
                self._test(path, operation.get("value"))
            case unknown:
                raise _DoesNotApply(f"unexpected kind: {unknown}")

    def _add(self, path: str, value: Any) -> None:
        container, key = self._owner(path, change=True)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(key, len(container) + 1), value)

    def _remove(self, path: str) -> Any:
        container, key = self._owner(path, change=True)
        if isinstance(container, list):
            return container.pop(_index(key, len(container)))
        if key not in container:
            raise _DoesNotApply(f"nothing at {path}")
        return container.pop(key)

    def _replace(self, path: str, value: Any) -> None:
        if path == "":
            if not isinstance(value, dict | list):
                raise _DoesNotApply("the document must be an object or an array")
            self.root = value
            return
        container, key = self._owner(path, change=True)
        if isinstance(container, dict):
            container[key] = value
        else:
            container[_index(key, len(container))] = value

    def _copy(self, source: str, path: str) -> None:
        value = _child(*self._owner(source, change=False))
        text = _encode(value)
        self._copied_bytes += len(text)
        self._copied_values += count_values(text)
        if self._copied_bytes > _MAX_COPIED_BYTES or self._copied_values > MAX_VALUES:
            raise _DoesNotApply("too much was copied")
        self._add(path, _decode(text))

    def _test(self, path: str, expected: Any) -> None:
        actual = self.root if path == "" else _child(*self._owner(path, change=False))
        # Compared as JSON text: 1, 1.0 and true are three different values.
        if actual is not expected and _encode(actual) != _encode(expected):
            raise _DoesNotApply(f"the value at {path} is another")

    def _owner(self, path: str, *, change: bool) -> tuple[Any, str]:
        """Return the container that holds the last step of a path, and that step."""
        # Bounded: a path of a million slashes would be a list of a million steps, in each of ten thousand operations.
        first, *steps = path.split("/", _MAX_STEPS)
        if not steps or "/" in steps[-1]:
            raise _DoesNotApply(f"no such path: {first}")
        # In this order (RFC 6901, section 4): the other one would turn `~01` into a slash.
        *steps, key = (step.replace("~1", "/").replace("~0", "~") for step in steps)
        if change:
            self.root = self._own(self.root)
        container = self.root
        for step in steps:
            below = _child(container, step)
            if not isinstance(below, dict | list):
                raise _DoesNotApply("no such path")
            if change:
                below = self._own(below)
                key_or_index: Any = step if isinstance(container, dict) else _index(step, len(container))
                container[key_or_index] = below
            container = below
        return container, key

    def _own(self, container: Any) -> Any:
        if id(container) in self._private:
            return container
        private = container.copy()
        self._private[id(private)] = private
        return private


def _required(operation: dict[str, Any], name: str) -> str:
    text = operation.get(name)
    if text is None:
        raise _DoesNotApply(f"operation without {name}")
    return text


def _child(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(key, len(container))]


def _index(key: str, size: int) -> int:
    """Parse an index below `size`; negative ones count from the end."""
    digits = key[1:] if key[:1] in ("-", "+") else key
    if not (digits.isascii() and digits.isdigit()):
        raise _DoesNotApply("not an index")
    index = whole_number(digits, size)
    if index is not None and key[0] == "-" and index:
        index = size - index
    if index is None or index >= size:
        raise _DoesNotApply(f"index out of range: {key}")
    return index
