"""Pods with CPU requests."""

from __future__ import annotations

from tarmac.api.schema import JsonObject


def container(name: str, cpu: str, limit: str = "", **fields: object) -> JsonObject:
    """Return a container with a memory limit, so that its cpu decides the QoS class of its pod."""
    requests, limits = {"cpu": cpu, "memory": "64Mi"}, {"cpu": limit or cpu, "memory": "64Mi"}
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **fields}


def sidecar(name: str, cpu: str) -> JsonObject:
    """Return a restartable init container."""
    return container(name, cpu, restartPolicy="Always")


def pod(*containers: JsonObject, init: tuple[JsonObject, ...] = (), **fields: object) -> JsonObject:
    """Return the spec of a pod."""
    return {"initContainers": list(init), "containers": list(containers), **fields}
