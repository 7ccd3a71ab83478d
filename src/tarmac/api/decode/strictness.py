"""Unknown and repeated fields: dropped from the object, and listed in the order in which Kubernetes lists them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tarmac.api.decode.findings import Path, locate, show
from tarmac.api.decode.jsontext import Pairs, Written
from tarmac.api.schema import JsonObject

Unknown = list[tuple[JsonObject, str]]

_MAX_FINDINGS = 100


def native_findings(unknown: Unknown, obj: JsonObject, pairs: Written | None, notes: list[str]) -> list[str]:
    """Drop unknown fields and list all findings in the order of the text, repeated keys among the unknown ones."""
    dropped = _drop(unknown, obj)
    if pairs is None:
        return [*notes, *(f'unknown field "{show(path)}"' for path in dropped)][:_MAX_FINDINGS]
    return [*notes, *_in_order(pairs, set(dropped), ())][:_MAX_FINDINGS]


def own_findings(
    metadata: Unknown, unknown: Unknown, obj: JsonObject, pairs: Written | None, notes: list[str]
) -> list[str]:
    """Drop unknown fields and list all findings: repeated keys first, then metadata, then the rest sorted."""
    in_metadata = [show(path) for path in _drop(metadata, obj)]
    others = sorted(show(path) for path in _drop(unknown, obj))
    repeated = repeated_fields(pairs)
    texts = [f'unknown field "{path}"' for path in (*in_metadata, *others)]
    return [*notes, *repeated, *texts][:_MAX_FINDINGS]


def repeated_fields(pairs: Written | None, unknown: Collection[Path] = ()) -> list[str]:
    """Return the repeated keys of a text, and its `unknown` fields, in the order of the text."""
    return list(_in_order(pairs, set(unknown), ()))


def joined(found: list[str]) -> str:
    """Join all findings into one text; YAML's notes on repeated keys are one finding of several lines."""
    lines = [text for text in found if text.startswith("line ")]
    others = [text for text in found if not text.startswith("line ")]
    yaml_errors = ["yaml: unmarshal errors:\n  " + "\n  ".join(lines)] if lines else []
    return ", ".join([*yaml_errors, *others])


def _drop(unknown: Unknown, obj: JsonObject) -> list[Path]:
    if not unknown:
        return []
    where = locate(obj)
    paths = [(*where[id(container)], key) for container, key in unknown]
    for container, key in unknown:
        del container[key]
    return paths


def _in_order(value: Any, unknown: set[Path], path: Path) -> Iterator[str]:
    """Walk the members as written. The content of an unknown field is skipped, as in Go."""
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for key, item in value.all:
            here = (*path, key)
            if here in unknown:
                yield f'unknown field "{show(here)}"'
                continue
            if key in seen:
                yield f'duplicate field "{show(here)}"'
            seen.add(key)
            yield from _in_order(item, unknown, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _in_order(item, unknown, (*path, index))
