"""The type table: every type that a served kind can reach, as compact schema nodes without descriptions.

Node keys are the attribute names of `tarmac.api.schema.Schema`; `ref` stands for a named type. Structure and merge
rules come from OpenAPI v3, the rules of Go's JSON encoding from the Go types.
"""

from __future__ import annotations

from typing import Any

from tools.kubernetes_tables.gotypes import Field, GoTypes

Node = dict[str, Any]

_RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    _RAW: "any",
}
_FORMATS = {"byte": "bytes"}


def type_table(components: dict[str, Any], go: GoTypes, roots: list[str]) -> dict[str, Node]:
    """All types reachable from `roots`, by published name."""
    table: dict[str, Node] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in table and name not in SCALARS:
            table[name] = _object(name, components[name], go)
            waiting += _references(table[name])
    return dict(sorted(table.items()))


def _object(name: str, published: dict[str, Any], go: GoTypes) -> Node:
    go_fields = {field.json: field for field in go.json_fields(name)}
    properties: dict[str, Any] = published.get("properties", {})
    strangers = properties.keys() - go_fields.keys()
    if strangers:
        raise SystemExit(f"{name}: published but not in the Go type: {sorted(strangers)}")
    node: Node = {
        "type": "object",
        "fields": {key: _field(value, go_fields[key]) for key, value in properties.items()},
    }
    if published.get("required"):
        node["required"] = published["required"]
    if published.get("x-kubernetes-map-type") == "atomic":
        node["atomic"] = True
    fields = node["fields"].items()
    node["always"] = {key: _zero(value, go_fields[key]) for key, value in fields if _always(value, go_fields[key])}
    node["keep_empty"] = [key for key, value in fields if _keep_empty(value, go_fields[key])]
    node["embedded"] = dict(go.embedded(name))
    return {key: value for key, value in node.items() if value}


def _always(node: Node, field: Field) -> bool:
    """Go writes the field whether it was given or not."""
    struct = "ref" in node or node["type"] in ("quantity", "int-or-string", "time", "micro-time", "any")
    if field.omit_zero:
        return False
    return not field.omit_empty or (struct and not field.pointer)


_ZEROS: dict[str, Any] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "quantity": "0",
    "int-or-string": 0,
}


def _zero(node: Node, field: Field) -> Any:
    """What Go writes for a field that was not given; `{}` of a struct stands for all its zeros."""
    if field.pointer:
        return None
    return {} if "ref" in node else _ZEROS.get(node["type"])


def _keep_empty(node: Node, field: Field) -> bool:
    """An empty value that was given is written."""
    if field.pointer or "ref" in node:
        return True
    # lists and maps go through protobuf, where empty and absent are the same
    return not field.omit_empty and node["type"] not in ("list", "map", "bytes")


def _field(published: dict[str, Any], field: Field) -> Node:
    node = _node(published)
    if "ref" not in node and node["type"] not in ("time", "micro-time"):
        _name_go_types(node, field.go_type)
    if "x-kubernetes-patch-strategy" in published:
        node["patch_strategy"] = published["x-kubernetes-patch-strategy"].split(",")
    if "x-kubernetes-patch-merge-key" in published:
        node["patch_merge_key"] = published["x-kubernetes-patch-merge-key"]
    if published.get("x-kubernetes-map-type") == "granular":  # though the type it refers to is atomic
        node["atomic"] = False
    if published.get("default"):
        node["default"] = published["default"]
    return node


def _name_go_types(node: Node, go_type: str) -> None:
    """`[]string` of a list says `string` of its items; `map[string][]uint8` says `[]uint8` of its values."""
    node["go_type"] = go_type
    items = node.get("items", {})
    if "type" in items:
        _name_go_types(items, go_type.removeprefix("[]") if node["type"] == "list" else go_type.partition("]")[2])


def _node(published: dict[str, Any]) -> Node:
    target = _target(published)
    if target == _RAW:  # owned as a whole, whatever is in it
        return {"type": "any", "atomic": True}
    if target is not None:
        return {"type": SCALARS[target]} if target in SCALARS else {"ref": target}
    match published["type"]:
        case "array":
            return _list(published)
        case "object" if "additionalProperties" in published:
            node: Node = {"type": "map", "items": _node(published["additionalProperties"])}
            return {**node, "atomic": True} if published.get("x-kubernetes-map-type") == "atomic" else node
        case "object":
            return {"type": "any"}
        case kind:
            node = {"type": _FORMATS.get(published.get("format", ""), kind)}
            return {**node, "format": published["format"]} if kind in ("integer", "number") else node


def _list(published: dict[str, Any]) -> Node:
    node: Node = {"type": "list", "items": _node(published["items"])}
    if published.get("x-kubernetes-list-type", "atomic") != "atomic":
        node["list_type"] = published["x-kubernetes-list-type"]
    if "x-kubernetes-list-map-keys" in published:
        node["list_map_keys"] = published["x-kubernetes-list-map-keys"]
    return node


def _target(published: dict[str, Any]) -> str | None:
    reference = published.get("$ref") or published.get("allOf", [{}])[0].get("$ref")
    return reference.rpartition("/")[2] if reference else None


def _references(node: Node) -> list[str]:
    found = [node["ref"]] if "ref" in node else []
    for child in [*node.get("fields", {}).values(), *([node["items"]] if "items" in node else [])]:
        found += _references(child)
    return found
