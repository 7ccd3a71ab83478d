"""The values of enumerations, which the API server tells and the published schemas leave out.

In Go an enumeration is a string type marked `+enum`; its values are the typed constants of its package. They are added
to the published schemas as the API server does it: as `enum`, and one by one at the end of the description.
"""

from __future__ import annotations

from typing import Any

from tools.kubernetes_tables.gotypes import Constant, GoTypes


def add_enumerations(components: dict[str, Any], go: GoTypes) -> None:
    """Complete every type that is a Go struct, in place."""
    for name, schema in components.items():
        fields = {field.json: field for field in go.json_fields(name)}
        for key, node in schema.get("properties", {}).items():
            values = go.enumeration(fields[key].target) if key in fields else []
            if values:
                _add(node, values, spaced=fields[key].spaced)


def _add(node: dict[str, Any], values: list[Constant], *, spaced: bool) -> None:
    inner = node.get("items") or node.get("additionalProperties")
    place = node if inner is None else inner
    place["enum"] = sorted({value.text for value in values})
    if inner is None:
        lines = sorted(_line(value) for value in values)
        blank = [""] * (1 + spaced)  # the API server keeps the blank line at the end of a comment
        node["description"] = "\n".join([node.get("description", ""), *blank, "Possible enum values:", *lines])


def _line(value: Constant) -> str:
    meaning = " ".join(value.doc.removeprefix(value.name).split())
    return f' - `"{value.text}"` {meaning}'.rstrip()
