"""Pods that ask for processors."""

from __future__ import annotations

from tarmac.api.schema import JsonObject


def container(name: str, cpu: str, limit: str = "", **fields: object) -> JsonObject:
    """One whose memory is limited, so that its cpu decides the quality of its pod."""
    requests, limits = {"cpu": cpu, "memory": "64Mi"}, {"cpu": limit or cpu, "memory": "64Mi"}
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **fields}


def sidecar(name: str, cpu: str) -> JsonObject:
    """An init container that stays."""
    return container(name, cpu, restartPolicy="Always")


def pod(*containers: JsonObject, init: tuple[JsonObject, ...] = (), **fields: object) -> JsonObject:
    """The spec of a pod."""
    return {"initContainers": list(init), "containers": list(containers), **fields}
