"""Devices of a node: its resources that are devices, and the runtime handlers that can pass them through.

Kubernetes has no field for them. They are in an annotation of the Node, written with its status, so that they survive
on every API server. A node without the annotation, or with an invalid one, is assumed to pass through all its devices.
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
        """Return the annotation; None if there are no devices or handlers."""
        if not self.resources or not self.handlers:
            return None
        return msgspec.json.encode({"resources": sorted(self.resources), "handlers": sorted(self.handlers)}).decode()


NO_DEVICES: Final = NodeDevices()


class _Annotation(msgspec.Struct):
    resources: list[str]
    handlers: list[str]


def node_devices(node: JsonObject) -> NodeDevices:
    """Return the devices in a Node's annotation."""
    text = (node["metadata"].get("annotations") or {}).get(ANNOTATION_DEVICES)
    if not text:
        return NO_DEVICES
    try:
        annotation = msgspec.json.decode(text, type=_Annotation)
    except msgspec.DecodeError:
        return NO_DEVICES
    return NodeDevices(frozenset(annotation.resources), frozenset(annotation.handlers))
