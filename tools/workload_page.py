"""The reference page of every field of Workload: `python -m tools.workload_page` writes it from the server's schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from tools.cache import ROOT
from tools.schemas import workload_schema

PAGE = ROOT / "docs" / "reference" / "workload.md"
_HEAD = """\
# Fields of Workload

Every field of a Workload, as the server's schema has it; `kubectl explain workload --recursive` prints the same. A test
holds this page to the schema, which is there [as a file](api.md#schemas-as-files), too.
[Workloads](../explanation/workloads.md) explains how they work, [kinds](kinds.md#shorthands) the shorthands.

| mark | meaning |
|---|---|
| **required** | a manifest without the field is rejected |
| `= VALUE` | the default |
| `[]`, `{}` | a list, a mapping by name |
"""


class WorkloadPage:
    """Writes one section for each object. An object that occurs again refers to its first section."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._seen: dict[str, str] = {}

    def text(self) -> str:
        """Return the page."""
        root = {**self._schema, "properties": dict(self._schema["properties"])}
        for name in ("apiVersion", "kind", "metadata"):
            root["properties"].pop(name)
        return "\n".join([_HEAD, *self._sections("", root)])

    def _sections(self, path: str, schema: dict[str, Any]) -> Iterator[str]:
        inner: list[tuple[str, dict[str, Any]]] = []
        rows: list[str] = []
        required = schema.get("required", ())
        for name, field in schema["properties"].items():
            place = f"{path}.{name}".removeprefix(".")
            found, suffix = _object_in(field)
            rows.append(
                f"| `{name}` | {self._type(found, field, suffix, place)} | {_meaning(field, name in required)} |"
            )
            if found is not None and self._seen[_key(found)] == place + suffix:
                inner.append((place + suffix, found))
        if path:
            yield f"## {path}\n\n| field | type | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        for place, each in inner:
            yield from self._sections(place, each)

    def _type(self, found: dict[str, Any] | None, field: dict[str, Any], suffix: str, place: str) -> str:
        if found is None:
            return _scalar(field)
        first = self._seen.setdefault(_key(found), place + suffix)
        return f"{'string or ' if 'anyOf' in field else ''}[object{suffix}](#{_anchor(first)})"


def _object_in(field: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Return the object of a field, of its items or of its values, with a mark for which; None for anything else."""
    options = [each for each in field.get("anyOf", ()) if each.get("properties")]
    for suffix, each in (
        ("", options[0] if options else field),
        ("[]", field.get("items")),
        ("{}", field.get("additionalProperties")),
    ):
        if isinstance(each, dict) and each.get("properties"):
            return each, suffix
    return None, ""


def _scalar(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return field["$ref"].rpartition(".")[2]
    for options in ("allOf", "anyOf", "oneOf"):
        if options in field:
            return " or ".join(dict.fromkeys(_scalar(each) for each in field[options]))
    if isinstance(items := field.get("items"), dict):
        return f"{_scalar(items)}[]"
    if isinstance(values := field.get("additionalProperties"), dict):
        return f"{_scalar(values)}{{}}"
    return field.get("type", "any")


def _meaning(field: dict[str, Any], required: bool) -> str:
    parts = ["**required**"] if required else []
    parts.append(field.get("description", "").replace("|", "\\|").replace("<", "&lt;").replace("\n", " "))
    if allowed := field.get("enum"):
        parts.append("One of " + ", ".join(f"`{each}`" for each in allowed) + ".")
    if "default" in field:
        parts.append(f"= `{json.dumps(field['default'])}`")
    return " ".join(filter(None, parts))


def _key(schema: dict[str, Any]) -> str:
    return json.dumps({"properties": schema["properties"], "required": schema.get("required")}, sort_keys=True)


def _anchor(heading: str) -> str:
    return "".join(each for each in heading.lower() if each.isalnum() or each in "_- ").replace(" ", "-")


def main() -> int:
    """Write the page."""
    PAGE.write_text(WorkloadPage(workload_schema()).text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
