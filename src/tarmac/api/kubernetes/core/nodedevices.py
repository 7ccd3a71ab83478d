"""What a node says of its devices: which of its resources are devices, and which runtime handlers can pass them on.

Kubernetes has no field for that. It stands in an annotation of the Node, written with its status, so that it survives
on every API server. A node without it, or with one that makes no sense, says nothing, and is taken to pass on what it
has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from tarmac.api.schema import JsonObject

ANNOTATION_DEVICES: Final = "node.tarmac/devices"


@dataclass(frozen=True, slots=True)
class NodeDevices:
    """Names of resources and of handlers; the empty handler is the runtime's default."""

    resources: frozenset[str] = frozenset()
    handlers: frozenset[str] = frozenset()

    def text(self) -> str | None:
        """The annotation; None: there is nothing to say."""
        if not self.resources or not self.handlers:
            return None
        return msgspec.json.encode({"resources": sorted(self.resources), "handlers": sorted(self.handlers)}).decode()


NO_DEVICES: Final = NodeDevices()


class _Annotation(msgspec.Struct):
    resources: list[str]
    handlers: list[str]


def node_devices(node: JsonObject) -> NodeDevices:
    """What a Node says."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION_DEVICES)
    if not text:
        return NO_DEVICES
    try:
        told = msgspec.json.decode(text, type=_Annotation)
    except msgspec.DecodeError:
        return NO_DEVICES
    return NodeDevices(frozenset(told.resources), frozenset(told.handlers))
