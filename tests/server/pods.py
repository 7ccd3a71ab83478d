"""A Pod with a secret value in every field, and the values that other clients may read."""

from __future__ import annotations

import json
from typing import Any

from tarmac.api.compute.names import API_VERSION, LABEL_WORKLOAD_NAME
from tarmac.api.networking.names import ANNOTATION_INTERFACES

CANARY = "kept-to-itself"
PODS = "/api/v1/namespaces/default/pods"
ENDPOINTS = "/apis/networking.datumapis.com/v1alpha/namespaces/default/podendpoints"
ALL_ENDPOINTS = "/apis/networking.datumapis.com/v1alpha/podendpoints"

_NIC = {
    "name": CANARY,
    "network": "default/default",
    "vni": 4097,
    "mtu": 1400,
    "mac": CANARY,
    "addresses": ["10.128.0.5/20"],
    "gateways": [CANARY],
    "routes": [CANARY],
    "policy": {"ingress": [{"from": [{"podSelector": {"matchLabels": {CANARY: CANARY}}}]}]},
}


def pod(name: str = "web", node: str = "n1", **labels: str) -> dict[str, Any]:
    """A Pod as a client writes it."""
    owner = {"apiVersion": API_VERSION, "kind": "Instance", "name": CANARY, "uid": CANARY, "controller": True}
    container = {
        "name": CANARY,
        "image": f"registry.example/{CANARY}:1",
        "command": [CANARY],
        "args": [CANARY],
        "workingDir": f"/{CANARY}",
        "env": [{"name": "PASSWORD", "value": CANARY}],
        "envFrom": [{"secretRef": {"name": CANARY}}],
        "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9999, "hostPort": 9999}],
        "volumeMounts": [{"name": CANARY, "mountPath": f"/{CANARY}"}],
        "livenessProbe": {"exec": {"command": [CANARY]}},
    }
    first = {**container, "name": f"first-{CANARY}", "restartPolicy": "Always"}
    first["ports"] = [{"name": "late", "containerPort": 81, "protocol": "UDP"}]
    return {
        "metadata": {
            "name": name,
            "labels": {"app": "web", LABEL_WORKLOAD_NAME: "shop", **labels},
            "annotations": {CANARY: CANARY, ANNOTATION_INTERFACES: json.dumps([_NIC])},
            "ownerReferences": [owner],
            "finalizers": [f"example.com/{CANARY}"],
        },
        "spec": {
            "nodeName": node,
            "containers": [container],
            "initContainers": [first],
            "volumes": [{"name": CANARY, "secret": {"secretName": CANARY}}],
            "imagePullSecrets": [{"name": CANARY}],
            "serviceAccountName": CANARY,
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": [CANARY]}],
            "hostname": CANARY,
            "nodeSelector": {CANARY: CANARY},
        },
    }


STATUS: dict[str, Any] = {
    "phase": "Running",
    "message": CANARY,
    "conditions": [{"type": "Ready", "status": "True", "message": CANARY}, {"type": CANARY, "status": "True"}],
    "hostIP": "198.18.0.1",
    "hostIPs": [{"ip": "198.18.0.1"}],
    "podIP": "10.128.0.5",
    "podIPs": [{"ip": "10.128.0.5"}],
    "containerStatuses": [
        {"name": CANARY, "image": CANARY, "imageID": CANARY, "ready": True, "restartCount": 0, "containerID": CANARY}
    ],
}


def endpoint(name: str, uid: str, version: str, node: str = "n1") -> dict[str, Any]:
    """The PodEndpoints object of a running Pod."""
    return {
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "PodEndpoint",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "resourceVersion": version,
            "labels": {"app": "web", LABEL_WORKLOAD_NAME: "shop"},
        },
        "node": node,
        "phase": "Running",
        "ready": True,
        "workload": "shop",
        "ports": [{"name": "http", "port": 8080}, {"name": "late", "port": 81, "protocol": "UDP"}],
        "addresses": ["10.128.0.5"],
        "nodeAddresses": ["198.18.0.1"],
        "interfaces": [{"network": "default/default", "addresses": ["10.128.0.5/20"]}],
    }
