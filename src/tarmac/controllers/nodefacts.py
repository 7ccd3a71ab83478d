"""A Node as controllers see it, decoded without images, addresses and versions."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.conditions import find
from tarmac.client.envelope import EnvelopeMetadata

READY = "Ready"


class _Struct(msgspec.Struct, rename="camel", frozen=True):
    pass


class NodeCondition(_Struct, frozen=True):
    """A condition of a node, reported by its agent or by the node controller, and its last heartbeat."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeTaint(_Struct, frozen=True):
    """A taint: keeps pods off the node, or evicts them."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class _Spec(_Struct, frozen=True):
    unschedulable: bool = False
    taints: list[NodeTaint] | None = None


class _Status(_Struct, frozen=True):
    conditions: list[NodeCondition] | None = None
    allocatable: dict[str, Any] | None = None


class ObservedNode(_Struct, frozen=True):
    """The fields of a Node that controllers read."""

    metadata: EnvelopeMetadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name

    @property
    def ready(self) -> NodeCondition | None:
        """The Ready condition, reported by the agent or by the node controller."""
        return find(self.status.conditions, READY)

    @property
    def readiness(self) -> str:
        """Status of the Ready condition: True, False or Unknown. A node without the condition is not ready."""
        found = self.ready
        return "False" if found is None else found.status

    @property
    def taints(self) -> list[NodeTaint]:
        """The node's taints."""
        return self.spec.taints or []


read_node = msgspec.json.Decoder(ObservedNode).decode
"""Decode an encoded Node."""
