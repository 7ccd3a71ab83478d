"""Tarmac's own kinds as CustomResourceDefinitions, for a real Kubernetes API server.

A CRD enforces less than our own server. Shorthands are not normalised: the two shorthand nodes (`network` as a plain
name, labels directly in `template`) accept unknown shapes, and the controllers normalise them when they read the
object. Rules that need code are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tarmac.api.resource import Column, Resource
from tarmac.api.schema import JsonObject, Schema, Type

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$"


def crd_documents(resources: Iterable[Resource]) -> list[JsonObject]:
    """Return one CRD for each of Tarmac's own writable kinds in `resources`, such as a `Catalog`."""
    return [_crd(resource) for resource in resources if not resource.native and "create" in resource.verbs]


def _crd(resource: Resource) -> JsonObject:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": _names(resource),
            "versions": [_version(resource)],
        },
    }


def _names(resource: Resource) -> JsonObject:
    names: JsonObject = {
        "kind": resource.kind,
        "listKind": resource.list_kind,
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    return names


def _version(resource: Resource) -> JsonObject:
    fields = {name: resource.schema.fields[name] for name in ("spec", "status") if name in resource.schema.fields}
    root: JsonObject = {
        "type": "object",
        "description": resource.schema.description,
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **{name: _node(field, name) for name, field in fields.items()},
        },
        "required": ["spec"],
    }
    return {
        "name": resource.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": _subresources(resource),
        "additionalPrinterColumns": [_column(column) for column in resource.columns if column.json_path],
    }


def _subresources(resource: Resource) -> JsonObject:
    found: JsonObject = {"status": {}} if "status" in resource.schema.fields else {}
    if resource.scale is not None:
        spec, status, selector = resource.scale
        found["scale"] = {"specReplicasPath": spec, "statusReplicasPath": status}
        if selector is not None:
            found["scale"]["labelSelectorPath"] = selector
    return found


def _column(column: Column) -> JsonObject:
    found: JsonObject = {"name": column.name, "type": column.type, "jsonPath": column.json_path}
    if column.description:
        found["description"] = column.description
    if column.priority:
        found["priority"] = column.priority
    return found


def _node(schema: Schema, name: str) -> JsonObject:
    """Return the JSON schema of one node. `name` is the name of its field."""
    node: JsonObject = {"description": schema.description} if schema.description else {}
    if schema.or_name:
        return {**node, "x-kubernetes-preserve-unknown-fields": True}
    node |= _SHAPES[schema.type](schema, name)
    if name == "template" and "labels" in schema.fields:
        node["x-kubernetes-preserve-unknown-fields"] = True
    if schema.default is not None:
        node["default"] = schema.default
    node |= {keyword: value for keyword, value in _bounds(schema).items() if value is not None}
    return node


def _bounds(schema: Schema) -> dict[str, Any]:
    return {
        "enum": list(schema.enum) or None,
        "pattern": schema.pattern,
        "minimum": schema.minimum,
        "maximum": schema.maximum,
        "minItems": schema.min_items,
        "maxProperties" if schema.type is Type.MAP else "maxItems": schema.max_items,
        "minLength": schema.min_length,
        "maxLength": schema.max_length,
    }


def _object(schema: Schema, name: str) -> JsonObject:
    node: JsonObject = {"type": "object"}
    if schema.fields:
        node["properties"] = {key: _node(field, key) for key, field in schema.fields.items()}
    if schema.required:
        node["required"] = list(schema.required)
    if schema.atomic:
        node["x-kubernetes-map-type"] = "atomic"
    return node


def _map(schema: Schema, name: str) -> JsonObject:
    return {"type": "object", "additionalProperties": _items(schema, name)}


def _list(schema: Schema, name: str) -> JsonObject:
    node: JsonObject = {"type": "array", "items": _items(schema, name), "x-kubernetes-list-type": schema.list_type}
    if not _keys_are_given(schema):
        # Only our own server can fill in keys (interfaces get eth0, eth1, …); elsewhere the list is replaced as a
        # whole.
        node["x-kubernetes-list-type"] = "atomic"
    elif schema.list_map_keys:
        node["x-kubernetes-list-map-keys"] = list(schema.list_map_keys)
    return node


def _keys_are_given(schema: Schema) -> bool:
    items = schema.items
    return items is None or all(key in items.required or items.fields[key].default for key in schema.list_map_keys)


def _items(schema: Schema, name: str) -> JsonObject:
    return _node(schema.items, name) if schema.items is not None else {}


def _integer(schema: Schema, _name: str) -> JsonObject:
    return {"type": "integer", "format": schema.format or "int32"}


def _quantity(_schema: Schema, _name: str) -> JsonObject:
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }


_SHAPES: dict[Type, Callable[[Schema, str], JsonObject]] = {
    Type.OBJECT: _object,
    Type.MAP: _map,
    Type.LIST: _list,
    Type.INTEGER: _integer,
    Type.QUANTITY: _quantity,
    Type.STRING: lambda _schema, _name: {"type": "string"},
    Type.BOOLEAN: lambda _schema, _name: {"type": "boolean"},
    Type.NUMBER: lambda _schema, _name: {"type": "number"},
    Type.TIME: lambda _schema, _name: {"type": "string", "format": "date-time"},
    Type.INT_OR_STRING: lambda _schema, _name: {"x-kubernetes-int-or-string": True},
    Type.ANY: lambda _schema, _name: {"x-kubernetes-preserve-unknown-fields": True},
}
