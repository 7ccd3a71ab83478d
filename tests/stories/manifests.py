"""Workloads as the stories write them."""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject

SMALL = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "1Gi"}}


def workload(*placements: JsonObject, image: str = "registry.example.com/web:1", name: str = "web") -> JsonObject:
    """A Workload of one container."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "runtime": {"resources": SMALL, "sandbox": {"containers": [{"name": "web", "image": image}]}},
                    "networkInterfaces": [{"network": {"name": "default"}}],
                    "tolerations": [_lost_for(1, key) for key in ("unreachable", "not-ready")],
                },
            },
            "placements": list(placements),
        },
    }


def _lost_for(seconds: int, key: str) -> JsonObject:
    """How long an instance waits for a node that is lost."""
    return {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }


def placement(*cities: str, replicas: int, name: str = "everywhere", **more: Any) -> JsonObject:
    """So many instances in each of these cities."""
    policy = more.pop("policy", "OrderedReady")
    settings = {"minReplicas": replicas, "instanceManagementPolicy": policy, **more.pop("scaleSettings", {})}
    chosen = {"cityCodes": list(cities)} if cities else {}
    return {"name": name, **chosen, "scaleSettings": settings, **more}


def image_of(obj: JsonObject) -> str:
    """The image of an Instance's only container."""
    return obj["spec"]["runtime"]["sandbox"]["containers"][0]["image"]


def set_image(spec: JsonObject, image: str) -> None:
    """Change the image of a Workload's spec."""
    spec["template"]["spec"]["runtime"]["sandbox"]["containers"][0]["image"] = image
