"""Addresses used by tenants, which a node must not take over by claiming them.

An ExternalService to an address of a node is withdrawn, and a class never hands out an address of a node. Both trust
Nodes. So a node may not claim a target in use, and only few addresses of a class: a gateway needs one on the segment
for each family.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from tarmac.api.egress.addressrules import Bounds
from tarmac.api.egress.names import Address
from tarmac.decide.nodeaddresses import canonical
from tarmac.server.admission.addresses.sourceranges import SourceRanges, overlapping
from tarmac.server.reader import Reader
from tarmac.store.interface import Entry, Event

_SERVICES = "submariner.io/externalservices"
MAX_POOLED = 8


class _Spec(msgspec.Struct):
    target: str = msgspec.field(name="targetIP", default="")


class _Service(msgspec.Struct):
    spec: _Spec


_decode = msgspec.json.Decoder(_Service).decode


class TenantAddresses:
    """The index of targets by address, from the store's events; loaded on first use."""

    def __init__(self, reader: Reader) -> None:
        self._store = reader.store
        self._ranges = SourceRanges(reader)
        self._targets: dict[str, Address] | None = None  # by the key of the ExternalService
        self._users: dict[Address, dict[str, None]] = {}  # the services of a target, in order of arrival

    def service_to(self, address: Address) -> str:
        """Return the key of an ExternalService with this target, or ""."""
        if self._targets is None:
            # Before the subscription: `_put` needs it, and the list below runs in the same turn of the loop.
            self._targets = {}
            self._store.subscribe(_SERVICES, self._changed)
            for entry in self._store.list(_SERVICES).entries:
                self._put(entry.name, _target(entry))
        return next(iter(self._users.get(address, ())), "")

    def pooled(self, addresses: Iterable[Address]) -> dict[Address, str]:
        """Return the addresses that a SourceIPClass offers, with its name."""
        offered = self._ranges.offered()
        found = {each: overlapping(Bounds(each.version, int(each), int(each)), offered) for each in addresses}
        return {address: each.class_name for address, each in found.items() if each is not None}

    def _changed(self, events: Sequence[Event]) -> None:
        for event in events:
            self._put(event.entry.name, _target(event.entry) if event.type != "DELETED" else None)

    def _put(self, key: str, target: Address | None) -> None:
        assert self._targets is not None, "they are subscribed to when they are loaded"
        before = self._targets.pop(key, None)
        if before is not None:
            users = self._users[before]
            del users[key]
            if not users:
                del self._users[before]
        if target is not None:
            self._targets[key] = target
            self._users.setdefault(target, {})[key] = None


def _target(entry: Entry) -> Address | None:
    return canonical(_decode(entry.raw).spec.target)
