"""The resources of the patch tests: some of Kubernetes' own kinds, one workload kind and one custom kind.

`DEPLOYMENT` is composed of parts of the generated tables (a pod's metadata and spec), because it is the kind whose
merge rules clients know best and whose pods may be changed after creation. `WIDGET` is as a CustomResourceDefinition
declares it: `CRD` is that definition, for recording against a real server.
"""

from __future__ import annotations

from tarmac.api.resource import Resource, Strategy, Subresource
from tarmac.api.schema import JsonObject, Schema, Type
from tarmac.api.tables import load_schema

STATUS = (Subresource("status", "", ("get", "patch", "update")),)


def _native(kind: str, plural: str, *, status: bool = False, namespaced: bool = True) -> Resource:
    return Resource(
        "",
        "v1",
        kind,
        plural,
        kind.lower(),
        namespaced,
        lambda: load_schema("", "v1", kind),
        native=True,
        subresources=STATUS if status else (),
    )


CONFIG_MAP = _native("ConfigMap", "configmaps")
SERVICE_ACCOUNT = _native("ServiceAccount", "serviceaccounts")
SERVICE = _native("Service", "services", status=True)
POD = _native("Pod", "pods", status=True)
NODE = _native("Node", "nodes", status=True, namespaced=False)


def _text() -> Schema:
    return Schema(Type.STRING)


def _integer() -> Schema:
    return Schema(Type.INTEGER)


def _deployment() -> Schema:
    pod = load_schema("", "v1", "Pod")
    metadata, spec = pod.fields["metadata"], pod.fields["spec"]
    template = Schema(Type.OBJECT, fields={"metadata": metadata, "spec": spec}, always={"metadata": {}, "spec": {}})
    limit = Schema(Type.INT_OR_STRING)
    rolling = Schema(Type.OBJECT, fields={"maxSurge": limit, "maxUnavailable": limit})
    strategy = Schema(Type.OBJECT, fields={"type": _text(), "rollingUpdate": rolling}, patch_strategy=("retainKeys",))
    selector = Schema(Type.OBJECT, fields={"matchLabels": Schema(Type.MAP, items=_text())}, atomic=True)
    deployment = Schema(
        Type.OBJECT,
        fields={
            "replicas": _integer(),
            "minReadySeconds": _integer(),
            "revisionHistoryLimit": _integer(),
            "progressDeadlineSeconds": _integer(),
            "paused": Schema(Type.BOOLEAN),
            "selector": selector,
            "strategy": strategy,
            "template": template,
        },
        always={"selector": None, "strategy": {}, "template": {}},
    )
    status = Schema(Type.OBJECT, fields={"replicas": _integer(), "observedGeneration": _integer()})
    return Schema(
        Type.OBJECT,
        fields={"apiVersion": _text(), "kind": _text(), "metadata": metadata, "spec": deployment, "status": status},
        always={"metadata": {}, "spec": {}, "status": {}},
    )


DEPLOYMENT = Resource(
    "apps", "v1", "Deployment", "deployments", "deployment", True, _deployment, native=True, subresources=STATUS
)


class _WithStatus(Strategy):
    has_status = True


def _widget() -> Schema:
    metadata = load_schema("", "v1", "Pod").fields["metadata"]
    part = Schema(
        Type.OBJECT,
        fields={
            "name": _text(),
            "slot": Schema(Type.INTEGER, default=1),
            "value": _text(),
            "options": Schema(Type.MAP, items=_text()),
        },
        required=("name",),
    )
    spec = Schema(
        Type.OBJECT,
        fields={
            "size": _integer(),
            "mode": _text(),
            "tags": Schema(Type.LIST, items=_text(), list_type="set"),
            "parts": Schema(Type.LIST, items=part, list_type="map", list_map_keys=("name", "slot")),
            "steps": Schema(Type.LIST, items=_text()),
            "labels": Schema(Type.MAP, items=_text()),
            "whole": Schema(Type.MAP, items=_text(), atomic=True),
            "free": Schema(Type.OBJECT, preserve_unknown=True),
        },
    )
    status = Schema(Type.OBJECT, fields={"phase": _text(), "count": _integer()})
    return Schema(
        Type.OBJECT,
        fields={"apiVersion": _text(), "kind": _text(), "metadata": metadata, "spec": spec, "status": status},
    )


WIDGET = Resource(
    "example.com",
    "v1",
    "Widget",
    "widgets",
    "widget",
    True,
    _widget,
    strategy=_WithStatus(),
    subresources=STATUS,
)

RESOURCES = {
    resource.kind: resource for resource in (CONFIG_MAP, SERVICE_ACCOUNT, SERVICE, POD, NODE, DEPLOYMENT, WIDGET)
}

_STRING = {"type": "string"}
_STRINGS = {"type": "object", "additionalProperties": _STRING}
CRD: JsonObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer"},
                                    "mode": _STRING,
                                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _STRING},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name", "slot"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": _STRING,
                                                "slot": {"type": "integer", "default": 1},
                                                "value": _STRING,
                                                "options": _STRINGS,
                                            },
                                        },
                                    },
                                    "steps": {"type": "array", "items": _STRING},
                                    "labels": _STRINGS,
                                    "whole": {**_STRINGS, "x-kubernetes-map-type": "atomic"},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"phase": _STRING, "count": {"type": "integer"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
