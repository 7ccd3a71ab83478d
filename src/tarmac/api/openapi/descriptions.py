"""The published description of a field, for columns that show it.

Descriptions are not part of the server's schemas. They are read from the generated OpenAPI document of the group when a
table is first requested, and only the few types on the path are decoded.
"""

from __future__ import annotations

import msgspec

from tarmac.api.openapi.naming import document_path
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.tables import read_generated

_VALUES = "\n\nPossible enum values:"  # part of a schema's description, not of a column's


class _Components(msgspec.Struct):
    schemas: dict[str, msgspec.Raw]


class _Document(msgspec.Struct):
    components: _Components


def field_descriptions(resource: Resource, paths: list[str]) -> dict[str, str]:
    """Return the schema's description of each path (`.spec.nodeName`); empty for a path that does not exist."""
    name = document_path(resource.group, resource.version).replace("/", "__")
    document = msgspec.json.decode(read_generated(f"openapi/{name}.json"), type=_Document)
    return {path: _describe(document.components.schemas, resource.schema.name or "", path) for path in paths}


def _describe(schemas: dict[str, msgspec.Raw], type_name: str, path: str) -> str:
    description = ""
    for step in path.removeprefix(".").split("."):
        node: JsonObject = msgspec.json.decode(schemas[type_name]) if type_name in schemas else {}
        field = node.get("properties", {}).get(step)
        if field is None:
            return ""
        description = field.get("description", "").partition(_VALUES)[0]
        type_name = _reference(field)
    return description


def _reference(field: JsonObject) -> str:
    found = [field, *field.get("allOf", ())]
    return next((part["$ref"].rpartition("/")[2] for part in found if "$ref" in part), "")
