"""Classes in a pod's status, on a server that does not know them: there they go into an annotation.

See `tarmac.agent.node.pruning` for the same about the Node. The annotation is `node.tarmac/classes`:
`{"pod":{},"containers":{"main":{"blockio":"slow"}}}`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tarmac.api.schema import JsonObject

_LISTS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_encode = msgspec.json.Encoder(order="sorted").encode


def classes_in(status: JsonObject) -> JsonObject:
    """What a status says about classes: of the pod, and of each container that is in one."""
    every = [each for name in _LISTS for each in status.get(name) or ()]
    containers = {each["name"]: found for each in every if (found := _classes(each))}
    pod = _classes(status)
    return {"pod": pod, "containers": containers} if pod or containers else {}


def without_classes(status: JsonObject) -> JsonObject:
    """What a server of Kubernetes keeps of it."""
    found = {name: value for name, value in status.items() if name != "resources"}
    for name in _LISTS:
        if name in found:
            found[name] = [_plain(each) for each in found[name]]
    return found


def noted(status: JsonObject) -> str | None:
    """The text of the annotation; None: there is nothing to say."""
    stated = classes_in(status)
    return _encode(stated).decode() if stated else None


def _classes(holder: JsonObject) -> JsonObject:
    return (holder.get("resources") or {}).get("classes") or {}


def _plain(status: JsonObject) -> JsonObject:
    if not _classes(status):
        return status
    return {**status, "resources": {name: each for name, each in status["resources"].items() if name != "classes"}}
