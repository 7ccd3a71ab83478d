"""Moves QoS classes of a pod's status into an annotation, for servers that prune the fields.

`tarmac.agent.node.pruning` does the same for the Node. The annotation is `node.tarmac/classes`:
`{"pod":{},"containers":{"main":{"blockio":"slow"}}}`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tarmac.api.schema import JsonObject

_LISTS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_encode = msgspec.json.Encoder(order="sorted").encode


def classes_in(status: JsonObject) -> JsonObject:
    """Return the classes in a status: those of the pod, and of each container that has any."""
    every = [each for name in _LISTS for each in status.get(name) or ()]
    containers = {each["name"]: found for each in every if (found := _classes(each))}
    pod = _classes(status)
    return {"pod": pod, "containers": containers} if pod or containers else {}


def without_classes(status: JsonObject) -> JsonObject:
    """Return the status without classes, as a Kubernetes server stores it."""
    found = {name: value for name, value in status.items() if name != "resources"}
    for name in _LISTS:
        if name in found:
            found[name] = [_plain(each) for each in found[name]]
    return found


def noted(status: JsonObject) -> str | None:
    """Return the text of the annotation; None if there are no classes."""
    stated = classes_in(status)
    return _encode(stated).decode() if stated else None


def _classes(holder: JsonObject) -> JsonObject:
    return (holder.get("resources") or {}).get("classes") or {}


def _plain(status: JsonObject) -> JsonObject:
    if not _classes(status):
        return status
    return {**status, "resources": {name: each for name, each in status["resources"].items() if name != "classes"}}
