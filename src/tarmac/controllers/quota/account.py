"""Quota account of one namespace: amounts that its Instances hold and wait for, maintained per Instance.

An Instance without the gate holds its runtime's amounts from its creation or admission until its object is deleted. An
admission is a promise: it counts at once and stands until the object shows it, even when the outcome of the write is
unknown. The amounts of an Instance never change, so each is decoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.names import GATE_QUOTA, LABEL_CITY_CODE, LABEL_INSTANCE_INDEX
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.quantity import Quantity
from tarmac.client.cache import Item
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.overhead import charged, runtime_class_of
from tarmac.decide.derived.qosclasses import instance_places
from tarmac.decide.quota import Claim, charges


class _Gate(msgspec.Struct):
    name: str


class _Controller(msgspec.Struct, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Spec(msgspec.Struct):
    controller: _Controller | None = None


class _Instance(msgspec.Struct):
    spec: _Spec


_read = msgspec.json.Decoder(_Instance).decode


def gates_of(raw: bytes) -> tuple[str, ...]:
    """Return the gates of an encoded Instance."""
    controller = _read(raw).spec.controller
    return tuple(gate.name for gate in controller.scheduling_gates or ()) if controller else ()


@dataclass(frozen=True, slots=True)
class QuotaHolder:
    """One Instance."""

    metadata: EnvelopeMetadata
    claim: Claim
    gates: tuple[str, ...]

    @property
    def waits(self) -> bool:
        """True if the quota holds it back."""
        return GATE_QUOTA in self.gates and self.metadata.deletion_timestamp is None

    @property
    def holds(self) -> bool:
        """True if it counts. An Instance that waits, or is deleted while it waits, does not."""
        return GATE_QUOTA not in self.gates


class QuotaAccount:
    """The Instances of a namespace with quotas."""

    def __init__(
        self,
        instance_type: Callable[[str], InstanceType | None],
        runtime_class: Callable[[str], JsonObject | None],
    ) -> None:
        self._instance_type = instance_type
        self._runtime_class = runtime_class
        self._members: dict[str, QuotaHolder] = {}
        self._held: dict[str, Quantity] = {}
        self._promised: dict[str, str] = {}  # name to uid: admitted, but still gated in the cache

    @property
    def held(self) -> dict[str, Quantity]:
        """The amounts held by all admitted Instances, by the names that quotas use."""
        return dict(self._held)

    def waiting(self) -> list[QuotaHolder]:
        """Return the Instances that the quota holds back."""
        return [member for member in self._members.values() if member.waits]

    def promised(self) -> list[str]:
        """Return the names of admitted Instances that still show the gate."""
        return list(self._promised)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def put(self, item: Item[Instance]) -> None:
        """Record a new or changed Instance."""
        metadata = item.metadata
        known = self._members.get(metadata.name)
        # Made again under its name: the admission was its predecessor's.
        if known is not None and known.metadata.uid != metadata.uid:
            self.drop(metadata.name)
            known = None
        # The amounts as first charged: recomputed from an edited type, they would leave a remainder on release.
        claim = known.claim if known is not None else self._claim(item)
        gates = gates_of(item.raw)
        # Not earlier: older events of the Instance may arrive after its admission, and still show the gate.
        if GATE_QUOTA not in gates:
            self._promised.pop(metadata.name, None)
        self._replace(known, self._member(metadata, claim, gates))

    def drop(self, name: str) -> None:
        """Record that an Instance is deleted."""
        self._promised.pop(name, None)
        self._replace(self._members.get(name), None)

    def let_through(self, name: str) -> None:
        """Count an Instance from now on, regardless of the cache."""
        member = self._members[name]
        self._promised[name] = member.metadata.uid
        self._replace(member, self._member(member.metadata, member.claim, member.gates))

    def _member(self, metadata: EnvelopeMetadata, claim: Claim, gates: tuple[str, ...]) -> QuotaHolder:
        promised = self._promised.get(metadata.name) == metadata.uid
        return QuotaHolder(metadata, claim, tuple(gate for gate in gates if gate != GATE_QUOTA) if promised else gates)

    def _replace(self, old: QuotaHolder | None, new: QuotaHolder | None) -> None:
        for member, sign in ((old, -1), (new, 1)):
            if member is not None and member.holds:
                for name, amount in charges(member.claim).items():
                    self._held[name] = self._held[name] + amount * sign if name in self._held else amount * sign
        if new is not None:
            self._members[new.metadata.name] = new
        elif old is not None:
            del self._members[old.metadata.name]

    def _claim(self, item: Item[Instance]) -> Claim:
        metadata, labels, runtime = item.metadata, item.metadata.labels or {}, item.object.spec.runtime
        name = runtime_class_of(runtime, item.object.metadata.annotations)
        ordinal = labels.get(LABEL_INSTANCE_INDEX, "")
        return Claim(
            name=metadata.name,
            resources=charged(instance_amounts(runtime, self._instance_type) or {}, self._runtime_class(name)),
            created=parse_rfc3339(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0,
            ordinal=int(ordinal) if ordinal.isdecimal() else 0,
            city=labels.get(LABEL_CITY_CODE, ""),
            classes=instance_places(item.object.metadata.annotations, runtime),
        )
