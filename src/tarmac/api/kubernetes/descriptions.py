"""The published description of a field, for columns that show it.

Descriptions are not part of the schemas that the server works with; they are read from the generated OpenAPI document
of the group when a table is first asked for, and only the few types on the way are decoded.
"""

from __future__ import annotations

import msgspec

from tarmac.api.kubernetes.tables import read_generated
from tarmac.api.openapi.naming import document_path
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject

_VALUES = "\n\nPossible enum values:"  # are part of a schema, not of a column


class _Components(msgspec.Struct):
    schemas: dict[str, msgspec.Raw]


class _Document(msgspec.Struct):
    components: _Components


def field_descriptions(resource: Resource, paths: list[str]) -> dict[str, str]:
    """What the schema says about each path (`.spec.nodeName`); a path that leads nowhere has an empty description."""
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
