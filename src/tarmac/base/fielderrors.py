"""Field errors, worded as Kubernetes words them.

Validators collect into one `FieldErrors` and do not stop at the first mistake, so a user sees every cause at once, up
to `MAX_CAUSES`. There validation ends: a hostile object is not validated to its end, and does not cause a response many
times its own size.

    with FieldErrors() as errors:
        validate(obj, errors)

Paths are plain strings (`spec.containers[0].name`, `metadata.labels[app]`), built by the caller.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

# error kind -> (reason in Status.details.causes, text that starts the message)
KINDS = {
    "Required": ("FieldValueRequired", "Required value"),
    "Invalid": ("FieldValueInvalid", "Invalid value"),
    "NotSupported": ("FieldValueNotSupported", "Unsupported value"),
    "Forbidden": ("FieldValueForbidden", "Forbidden"),
    "Duplicate": ("FieldValueDuplicate", "Duplicate value"),
    "NotFound": ("FieldValueNotFound", "Not found"),
    "TooLong": ("FieldValueTooLong", "Too long"),
    "TooMany": ("FieldValueTooMany", "Too many"),
    "TypeInvalid": ("FieldValueTypeInvalid", "Invalid value"),
    "InternalError": ("InternalError", "Internal error"),
}
MAX_CAUSES = 200
_MAX_SHOWN = 16 * 1024  # characters of a text or a path
_VALUELESS = {"Required", "Forbidden", "InternalError", "TooLong"}


class FieldError(NamedTuple):
    """One cause."""

    kind: str
    path: str
    value: Any
    detail: str

    @property
    def reason(self) -> str:
        """The machine-readable reason of the cause."""
        return KINDS[self.kind][0]

    @property
    def message(self) -> str:
        """Kind, value and detail, without the path."""
        text = KINDS[self.kind][1]
        if self.kind not in _VALUELESS:
            text = f"{text}: {_show(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class Enough(Exception):
    """`MAX_CAUSES` is reached. Ends the validation; the `with` block of the collection catches it."""


class FieldErrors:
    """An ordered collection of causes, and a context manager that ends when it is full."""

    __slots__ = ("causes", "cut_short")

    def __init__(self) -> None:
        self.causes: list[FieldError] = []
        self.cut_short = False  # True if there were more causes than are kept

    def __enter__(self) -> FieldErrors:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, Enough)

    def __bool__(self) -> bool:
        return bool(self.causes)

    def __iter__(self) -> Iterator[FieldError]:
        return iter(self.causes)

    def __len__(self) -> int:
        return len(self.causes)

    def add(self, kind: str, path: str, value: Any = None, detail: str = "") -> None:
        """Append one cause of any kind. Raises Enough at the limit."""
        if len(self.causes) >= MAX_CAUSES:
            self.cut_short = True
            raise Enough
        if len(path) > _MAX_SHOWN:  # a path names keys of maps: megabytes of key, once per cause, would hold the loop
            path = f"{path[:_MAX_SHOWN]}…"
        self.causes.append(FieldError(kind, path, value, detail))

    def required(self, path: str, detail: str = "") -> None:
        """Record a missing required value."""
        self.add("Required", path, None, detail)

    def invalid(self, path: str, value: Any, detail: str) -> None:
        """Record a value that breaks a rule."""
        self.add("Invalid", path, value, detail)

    def not_supported(self, path: str, value: Any, supported: Iterable[str]) -> None:
        """Record a value outside a closed set."""
        self.add("NotSupported", path, value, "supported values: " + ", ".join(json.dumps(item) for item in supported))

    def forbidden(self, path: str, detail: str) -> None:
        """Record a field that may not be set, or not be changed, here."""
        self.add("Forbidden", path, None, detail)

    def duplicate(self, path: str, value: Any) -> None:
        """Record a duplicate of a value that must be unique."""
        self.add("Duplicate", path, value)

    def not_found(self, path: str, value: Any, detail: str = "") -> None:
        """Record a reference to a missing object."""
        self.add("NotFound", path, value, detail)

    def too_long(self, path: str, value: Any, limit: int) -> None:
        """Record a string with more bytes than allowed."""
        self.add("TooLong", path, value, f"may not be more than {limit} bytes")

    def too_many(self, path: str, count: int, limit: int) -> None:
        """Record a list or map with more items than allowed."""
        noun = "item" if limit == 1 else "items"
        self.add("TooMany", path, count, f"must have at most {limit} {noun}")

    def type_invalid(self, path: str, value: Any, detail: str) -> None:
        """Record a value of the wrong JSON type."""
        self.add("TypeInvalid", path, value, detail)

    def internal(self, path: str, detail: str) -> None:
        """Record that the check itself failed."""
        self.add("InternalError", path, None, detail)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…", ensure_ascii=False)
    if value is None:
        return "null"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
