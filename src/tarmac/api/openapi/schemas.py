"""Schemas of declared kinds in the form of OpenAPI v3."""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.openapi.naming import answer_name, reference
from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCALARS: dict[Type, dict[str, Any]] = {
    Type.STRING: {"type": "string"},
    Type.INTEGER: {"type": "integer"},
    Type.NUMBER: {"type": "number"},
    Type.BOOLEAN: {"type": "boolean"},
    Type.BYTES: {"type": "string", "format": "byte"},
    Type.ANY: {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_NAMED = {
    Type.TIME: f"{_META}Time",
    Type.MICRO_TIME: f"{_META}MicroTime",
    Type.QUANTITY: "io.k8s.apimachinery.pkg.api.resource.Quantity",
    Type.INT_OR_STRING: "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
}
OR_NAME: Final = "x-tarmac-or-name"
"""On an object that clients may abbreviate to its name. OpenAPI v3 of Kubernetes has no keyword for that."""

_LIMITS = {
    "pattern": "pattern",
    "minimum": "minimum",
    "maximum": "maximum",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
}


def components_of(resource: Resource, type_name: str) -> dict[str, Any]:
    """Return the type of a resource and of a list of it, by published name."""
    item = openapi_schema(resource.schema, root=True)
    item["x-kubernetes-group-version-kind"] = [_gvk(resource, resource.kind)]
    fields = item["properties"]
    fields["metadata"] = _described(reference(f"{_META}ObjectMeta"), "Name, labels and metadata kept by the system.")
    items = {
        "apiVersion": fields["apiVersion"],
        "items": {"description": f"The {resource.plural}.", "items": reference(type_name), "type": "array"},
        "kind": fields["kind"],
        "metadata": _described(reference(f"{_META}ListMeta"), "Where the list was read, and how to go on."),
    }
    listed = {
        "description": f"A list of {resource.plural}.",
        "properties": items,
        "required": ["items"],
        "type": "object",
        "x-kubernetes-group-version-kind": [_gvk(resource, resource.list_kind)],
    }
    return {type_name: item, f"{type_name}List": listed, **_answers_of(resource)}


def _answers_of(resource: Resource) -> dict[str, Any]:
    """Return the response types of the resource's subresources."""
    return {
        answer_name(each): {
            **openapi_schema(each.answer()),
            "x-kubernetes-group-version-kind": [_gvk(resource, each.kind)],
        }
        for each in resource.subresources
        if each.answer is not None
    }


def _gvk(resource: Resource, kind: str) -> dict[str, str]:
    return {"group": resource.group, "kind": kind, "version": resource.version}


def _described(node: dict[str, Any], text: str) -> dict[str, Any]:
    """Add a description. A reference may not have siblings in OpenAPI v3, so it is wrapped."""
    if not text:
        return node
    return {"allOf": [node], "description": text} if "$ref" in node else {**node, "description": text}


def openapi_schema(schema: Schema, *, root: bool = False) -> dict[str, Any]:
    """Return one node and all below it. The metadata of a kind is a reference that the caller fills in."""
    node = _described(_shape(schema, root), schema.description)
    if schema.enum:
        node["enum"] = list(schema.enum)
    if schema.format and "$ref" not in node:
        node["format"] = schema.format
    if schema.default is not None:
        node["default"] = schema.default
    if schema.nullable:
        node["nullable"] = True
    if schema.or_name:
        node[OR_NAME] = True
    for attribute, keyword in _LIMITS.items():
        value = getattr(schema, attribute)
        if value is not None:
            node["maxProperties" if (schema.type, attribute) == (Type.MAP, "max_items") else keyword] = value
    return node


def _shape(schema: Schema, root: bool) -> dict[str, Any]:
    if schema.type in _NAMED:
        return reference(_NAMED[schema.type])
    if schema.type is Type.OBJECT:
        return _object(schema, root)
    if schema.items is None:
        return dict(_SCALARS[schema.type])
    if schema.type is Type.MAP:
        node: dict[str, Any] = {"additionalProperties": openapi_schema(schema.items), "type": "object"}
        return {**node, "x-kubernetes-map-type": "atomic"} if schema.atomic else node
    node = {"items": openapi_schema(schema.items), "type": "array", "x-kubernetes-list-type": schema.list_type}
    if schema.list_map_keys:
        node["x-kubernetes-list-map-keys"] = list(schema.list_map_keys)
    return node


def _object(schema: Schema, root: bool) -> dict[str, Any]:
    fields = {name: field for name, field in schema.fields.items() if not (root and name == "metadata")}
    node: dict[str, Any] = {
        "properties": {name: openapi_schema(field) for name, field in fields.items()},
        "type": "object",
    }
    if schema.required:
        node["required"] = [name for name in schema.required if name in fields]
    if schema.preserve_unknown:
        node["x-kubernetes-preserve-unknown-fields"] = True
    if schema.atomic:
        node["x-kubernetes-map-type"] = "atomic"
    return node
