"""Adds Tarmac's own fields, `api/kubernetes/extensionfields.py`, to what Kubernetes publishes and to its Go types."""

from __future__ import annotations

from typing import Any

from tarmac.api.kubernetes.extensionfields import OWN_FIELDS, OWN_TYPES, OwnField
from tools.kubernetes_tables.gotypes import Field, GoTypes

_CORE = "io.k8s.api.core.v1"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int64": {"type": "integer", "format": "int64"},
    "map[string]string": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
}


def add_own_fields(components: dict[str, Any], go: GoTypes) -> None:
    """In place."""
    for name, own in OWN_TYPES.items():
        components[name] = {"description": own.description, "type": "object"}
        _add(name, own.fields, components, go)
    for name, fields in OWN_FIELDS.items():
        _add(name, fields, components, go)


def _add(name: str, fields: tuple[OwnField, ...], components: dict[str, Any], go: GoTypes) -> None:
    schema = components[name]
    properties: dict[str, Any] = {**schema.get("properties", {}), **{each.name: _property(each) for each in fields}}
    schema["properties"] = dict(sorted(properties.items()))
    if required := [each.name for each in fields if each.required]:
        schema["required"] = required
    go.extend(name, [_go_field(each) for each in fields])


def _go_field(field: OwnField) -> Field:
    bare = field.go_type.removeprefix("*")
    return Field(
        json=field.name,
        number="",
        go_type=bare,
        target=f"{_CORE}.{bare.rpartition('.')[2]}",
        pointer=bare != field.go_type,
        omit_empty=not field.required,
        omit_zero=False,
        doc=field.description,
    )


def _property(field: OwnField) -> dict[str, Any]:
    described = {"description": field.description}
    bare = field.go_type.removeprefix("*")
    if bare in _SCALARS:
        zero = {"default": ""} if field.required and bare == "string" else {}
        return {**described, **zero, **_SCALARS[bare]}
    if bare == "resource.Quantity":
        return {**described, "allOf": [_reference(_QUANTITY)]}
    items = {"allOf": [_reference(f"{_CORE}.{bare.rpartition('.')[2]}")], "default": {}}
    return {**described, "type": "array", "items": items, **_list_rules(field.key)}


def _list_rules(key: str) -> dict[str, Any]:
    if not key:
        return {"x-kubernetes-list-type": "atomic"}
    return {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
        "x-kubernetes-patch-merge-key": key,
        "x-kubernetes-patch-strategy": "merge",
    }


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
