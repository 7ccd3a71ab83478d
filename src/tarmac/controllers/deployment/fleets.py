"""The Instances of every deployment as a few fields each, kept up to date by the shared informer.

A deployment examines all its Instances whenever one of them changes. Decoding a thousand objects for each of a thousand
changes would be a million reads, so each object is decoded once, when it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import NamedTuple

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import GATE_NETWORK, LABEL_DEPLOYMENT_UID
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.decide.instances import InstanceFacts, InstanceView

_read = msgspec.json.Decoder(InstanceFacts).decode


class FleetMember(NamedTuple):
    """One Instance: its view for decisions, its identity, and its scheduling gates.

    `applied` is the template's `running` that was last applied to its machine; None for a sandbox.
    """

    key: str
    view: InstanceView
    uid: str
    version: str
    gates: tuple[str, ...]
    applied: bool | None

    @property
    def waits_for_network(self) -> bool:
        """True if it has no addresses yet."""
        return GATE_NETWORK in self.gates and not self.view.deleting


class Fleets:
    """Members by the uid of their deployment, then by name."""

    def __init__(self, instances: Informer[Instance]) -> None:
        self._members: dict[str, dict[str, FleetMember]] = {}
        instances.on_change(self._changed)

    def of(self, deployment_uid: str) -> dict[str, FleetMember]:
        """Return the members of a deployment. A live view: do not change it, and do not hold it over an await."""
        return self._members.get(deployment_uid, {})

    def views(self, deployment_uid: str) -> Iterator[InstanceView]:
        """Return the members' views for decisions."""
        return (member.view for member in self.of(deployment_uid).values())

    def _changed(self, old: Item[Instance] | None, new: Item[Instance] | None) -> None:
        # A changed label moves the Instance: it must not count for both deployments.
        if old is not None and (new is None or _deployment(new) != _deployment(old)):
            self._drop(_deployment(old), old.metadata.name)
        if new is not None and (uid := _deployment(new)):
            member = _member(new)
            self._members.setdefault(uid, {})[member.view.name] = member

    def _drop(self, uid: str, name: str) -> None:
        members = self._members.get(uid)
        if members is not None:
            members.pop(name, None)
            if not members:
                del self._members[uid]


def _deployment(item: Item[Instance]) -> str:
    return (item.metadata.labels or {}).get(LABEL_DEPLOYMENT_UID, "")


def _member(item: Item[Instance]) -> FleetMember:
    facts = _read(item.raw)
    controller = facts.spec.controller
    gates = tuple(gate.name for gate in controller.scheduling_gates) if controller else ()
    uid, version = intern(item.metadata.uid), item.metadata.resource_version
    applied = None if facts.spec.runtime.virtual_machine is None else controller is None or controller.running
    return FleetMember(item.key, InstanceView.of(facts), uid, version, gates, applied)
