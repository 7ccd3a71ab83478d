"""A Pod as the scheduler reads it on every change: a few fields, decoded without the rest."""

from __future__ import annotations

import msgspec

from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.partial import Partial


class _Metadata(Partial):
    uid: str
    generation: int = 0
    deletion_timestamp: str | None = None


class _Spec(Partial):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    scheduling_gates: list[dict[str, str]] | None = None


class _Status(Partial):
    phase: str = ""
    nominated_node_name: str = ""


class SchedulingPod(Partial):
    """The fields that decide if a pod waits for a node, is on one, or neither."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.metadata.uid

    @property
    def ended(self) -> bool:
        """True if the pod will never run again, so that it uses no resources of its node."""
        return self.status.phase in TERMINAL

    def waits_for(self, schedulers: frozenset[str]) -> bool:
        """Return True if one of these schedulers is to assign a node to the pod."""
        spec = self.spec
        free = not spec.node_name and not spec.scheduling_gates and self.metadata.deletion_timestamp is None
        return free and spec.scheduler_name in schedulers


read_facts = msgspec.json.Decoder(SchedulingPod).decode
"""Decode the scheduling fields of an encoded Pod."""
