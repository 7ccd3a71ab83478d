"""One shared address for every Workload that asks for it; announcing it is the business of the datapath.

What a Workload's status says is held; an address that is given out is held until its status says so. One range serves
all Workloads, so no two have the same.
"""

from __future__ import annotations

from itertools import chain

import msgspec

from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import Struct
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.decide import reasons
from tarmac.decide.addresses import Pool
from tarmac.decide.verdict import Refusal, Verdict

RANGE = "100.127.0.0/16"  # of the space shared by carriers, so that it clashes with no network of a user


class Anycast:
    """Gives out the addresses."""

    def __init__(self, workloads: Informer[Workload]) -> None:
        self._workloads = workloads
        self._given: dict[str, str] = {}  # by uid of the Workload
        self._held: dict[str, list[str]] = {}  # by uid of the Workload
        workloads.on_change(self._changed)

    def addresses(self, workload: Workload) -> Verdict[tuple[str, ...]]:
        """The shared addresses of a Workload: none unless it asks for one."""
        uid = workload.metadata.uid
        if workload.metadata.annotations.get(ANNOTATION_ANYCAST) != "true":
            self._given.pop(uid, None)
            return Verdict(())
        held = workload.status.anycast_addresses if workload.status else []
        if held:
            return Verdict(tuple(held))
        if uid not in self._given:
            free = Pool.of(RANGE, [*chain.from_iterable(self._held.values()), *self._given.values()]).take()
            if free is None:
                message = f"No shared address of {RANGE} is free."
                change = f"Take the annotation {ANNOTATION_ANYCAST} off a workload that does not need it."
                return Verdict(None, (Refusal(reasons.ADDRESS_POOL_EXHAUSTED, message, rule="anycast", change=change),))
            self._given[uid] = free[0]
        return Verdict((self._given[uid],))

    def _changed(self, old: Item[Workload] | None, new: Item[Workload] | None) -> None:
        for item in (old, new):
            if item is not None:
                self._held.pop(item.metadata.uid, None)
        if new is None and old is not None:
            self._given.pop(old.metadata.uid, None)
        if new is not None and (held := _read(new.raw).status.anycast_addresses):
            self._held[new.metadata.uid] = held


class _Status(Struct):
    anycast_addresses: list[str] = msgspec.field(default_factory=list[str])


class _Holder(Struct):
    """A Workload, as far as shared addresses go."""

    status: _Status = msgspec.field(default_factory=_Status)


_read = msgspec.json.Decoder(_Holder).decode
