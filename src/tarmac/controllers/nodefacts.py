"""A Node as controllers see it, decoded without the rest (images, addresses, versions)."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.conditions import find
from tarmac.client.envelope import Metadata

READY = "Ready"


class _Struct(msgspec.Struct, rename="camel", frozen=True):
    pass


class NodeCondition(_Struct, frozen=True):
    """What a node, or whoever watches it, says of one of its sides, and when it was last said."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class NodeTaint(_Struct, frozen=True):
    """What keeps pods off, or drives them away."""

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


class NodeFacts(_Struct, frozen=True):
    """What a controller needs to know of a node."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def name(self) -> str:
        """Its name."""
        return self.metadata.name

    @property
    def ready(self) -> NodeCondition | None:
        """What it says, or is said, about its being ready."""
        return find(self.status.conditions, READY)

    @property
    def readiness(self) -> str:
        """True, False or Unknown. A node that has said nothing yet is not ready."""
        found = self.ready
        return "False" if found is None else found.status

    @property
    def taints(self) -> list[NodeTaint]:
        """Its taints."""
        return self.spec.taints or []


read_node = msgspec.json.Decoder(NodeFacts).decode
"""The facts of an encoded Node."""
