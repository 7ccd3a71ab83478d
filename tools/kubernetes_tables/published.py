"""Kubernetes' published schemas, and those of metrics.k8s.io, which are published nowhere but as Go types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.kubernetes_tables.enumerations import add_enumerations
from tools.kubernetes_tables.gotypes import Field, GoTypes
from tools.kubernetes_tables.ownfields import add_own_fields

METRICS = "io.k8s.metrics.pkg.apis.metrics.v1beta1"
_METRICS_KINDS = ("NodeMetrics", "NodeMetricsList", "PodMetrics", "PodMetricsList")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"

PACKAGES = {
    "k8s.io/api": [
        "autoscaling/v2",
        *(f"{group}/v1"
        for group in (
            "apps", "authentication", "authorization", "autoscaling", "batch", "certificates", "coordination", "core",
            "discovery", "events", "flowcontrol", "networking", "node", "policy", "rbac", "resource", "scheduling",
            "storage",
        )),
    ],
    "k8s.io/apimachinery": ["pkg/apis/meta/v1", "pkg/runtime", "pkg/api/resource", "pkg/util/intstr", "pkg/types"],
    "k8s.io/metrics": ["pkg/apis/metrics/v1beta1"],
}  # fmt: skip


def read_go_types(modules: dict[str, Path]) -> GoTypes:
    """The Go types of every package that served kinds use."""
    go = GoTypes()
    for module, packages in PACKAGES.items():
        for package in packages:
            go.read(f"{module}/{package}", modules[module] / package)
    return go


def read_documents(kubernetes: Path) -> dict[str, dict[str, Any]]:
    """OpenAPI v3 documents by path: `api/v1`, `apis/rbac.authorization.k8s.io/v1`."""
    documents = {}
    for path in sorted((kubernetes / "api" / "openapi-spec" / "v3").glob("*_openapi.json")):
        name = path.name.removesuffix("_openapi.json").replace("__", "/")
        documents[name] = json.loads(path.read_bytes())
    return documents


def components(documents: dict[str, dict[str, Any]], go: GoTypes) -> dict[str, Any]:
    """Every published type by name, with our own fields; the same name means the same type in all documents."""
    merged: dict[str, Any] = {}
    for document in documents.values():
        merged.update(document.get("components", {}).get("schemas", {}))
    for name in (*_METRICS_KINDS, "ContainerMetrics"):
        merged[f"{METRICS}.{name}"] = _from_go(f"{METRICS}.{name}", go)
    add_enumerations(merged, go)
    add_own_fields(merged, go)
    return merged


def _from_go(name: str, go: GoTypes) -> dict[str, Any]:
    fields = list(go.json_fields(name))
    schema: dict[str, Any] = {
        "description": go.doc(name),
        "properties": {field.json: _property(field) for field in fields},
        "required": sorted(field.json for field in fields if not field.omit_empty),
        "type": "object",
    }
    kind = name.rpartition(".")[2]
    if kind in _METRICS_KINDS:
        schema["x-kubernetes-group-version-kind"] = [{"group": "metrics.k8s.io", "kind": kind, "version": "v1beta1"}]
    return schema


_METRICS_TYPES = {
    "v1.ObjectMeta": f"{_META}.ObjectMeta",
    "v1.ListMeta": f"{_META}.ListMeta",
    "v1.Time": f"{_META}.Time",
    "v1beta1.NodeMetrics": f"{METRICS}.NodeMetrics",
    "v1beta1.PodMetrics": f"{METRICS}.PodMetrics",
    "v1beta1.ContainerMetrics": f"{METRICS}.ContainerMetrics",
}


def _property(field: Field) -> dict[str, Any]:
    described = {"description": field.doc}
    if field.go_type in ("string", "v1.Duration"):
        return {**described, "type": "string"}
    if field.go_type == "v1.ResourceList":
        quantity = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}
        return {**described, "type": "object", "additionalProperties": quantity}
    reference = {"$ref": f"#/components/schemas/{_METRICS_TYPES[field.go_type.removeprefix('[]')]}"}
    if field.go_type.startswith("[]"):
        return {**described, "type": "array", "items": reference, "x-kubernetes-list-type": "atomic"}
    return {**described, "allOf": [reference], "default": {}}
