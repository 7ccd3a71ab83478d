"""Compares ranges of SourceIPClasses and AddressPools with each other, and with the addresses allocated from them.

Reads accepted writes, durable or not, so two pending writes see each other. Allocated addresses are kept in a sorted
index from the store's events, so a class that drops a range is compared only with the addresses in that range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.declare import decode
from tarmac.api.egress.addressrules import Bounds, bounds_of, written_as
from tarmac.api.egress.names import Address, object_name
from tarmac.api.egress.sourceip import AddressRange
from tarmac.api.ingress.names import ADDRESS_POOLS
from tarmac.api.schema import JsonObject
from tarmac.server.reader import Reader
from tarmac.server.reader import decode as read
from tarmac.store.interface import Event

CLASSES, SOURCE_IPS = "submariner.io/sourceipclasses", "submariner.io/sourceips"
_KINDS: Final = {CLASSES: "SourceIPClass", ADDRESS_POOLS: "AddressPool"}  # kinds that offer addresses, by bucket
RANGE_GUARD: Final = "source-ips"
"""The guard of writes to classes, pools and their addresses: they are compared with each other."""

_SHOWN = 3
_RESTING = ("Released", "Quarantined")


class ClassRange(NamedTuple):
    """A range and the class or pool that offers it."""

    bounds: Bounds
    class_name: str
    written: str
    kind: str = "SourceIPClass"

    @property
    def holder(self) -> str:
        """The class or pool, as messages name it."""
        return f'{self.kind} "{self.class_name}"'


def ranges_of(obj: JsonObject | None, name: str = "", kind: str = "SourceIPClass") -> list[ClassRange]:
    """Return the ranges of an accepted class or pool, in its order."""
    found = [decode(AddressRange, each) for each in objects(mapping(obj, "spec"), "ranges")]
    return [ClassRange(bounds_of(each), name, written_as(each), kind) for each in found]


def overlapping(bounds: Bounds, others: Sequence[ClassRange]) -> ClassRange | None:
    """Return one of the ranges, which are sorted and disjoint, that overlaps the bounds, or None."""
    at = bisect_right(others, (bounds.family, bounds.last), key=lambda each: each.bounds[:2])
    found = others[at - 1] if at else None
    return found if found is not None and found.bounds.overlaps(bounds) else None


def _lost(old: Sequence[ClassRange], new: Sequence[ClassRange]) -> Iterator[Bounds]:
    """Yield the parts of the old ranges that the new ones do not contain."""
    kept = sorted(each.bounds for each in new)
    for family, first, last in sorted(each.bounds for each in old):
        for other in kept:
            if other.family == family and other.first <= last and first <= other.last:
                if first < other.first:
                    yield Bounds(family, first, other.first - 1)
                first = other.last + 1
        if first <= last:
            yield Bounds(family, first, last)


class SourceRanges:
    """The ranges of all classes and pools, and an index of the addresses of one kind, loaded on first use."""

    def __init__(self, reader: Reader, allocated: str = SOURCE_IPS) -> None:
        """`allocated` is the bucket of the addresses: SourceIPs or PublicAddresses."""
        self._reader, self._allocated = reader, allocated
        self._known: list[tuple[int, int]] | None = None  # family and number of every allocated address, sorted

    def offered(self, without: str = "", bucket: str = CLASSES) -> list[ClassRange]:
        """Return the ranges of all classes and pools, except the one named, sorted by address."""
        store = self._reader.store
        known = {(kind, entry.name): entry for kind in _KINDS for entry in store.list(kind).entries}
        for event in store.pending():
            if event.bucket in _KINDS:
                key = (event.bucket, event.entry.name)
                known.pop(key, None)
                if event.type != "DELETED":
                    known[key] = event.entry
        known.pop((bucket, without), None)
        return sorted(each for (of, name), entry in known.items() for each in ranges_of(read(entry), name, _KINDS[of]))

    def dropped(self, old: JsonObject | None, new: JsonObject | None) -> list[str]:
        """Return the first few held or resting addresses that a class would drop, with their holders."""
        found: list[str] = []
        for bounds in _lost(ranges_of(old), ranges_of(new)):
            for address in self._between(bounds):
                holder = _holder(self._reader.get(self._allocated, object_name(address)))
                if holder is not None and f"{address} ({holder})" not in found:
                    found.append(f"{address} ({holder})")
                if len(found) == _SHOWN:
                    return found
        return found

    def _between(self, bounds: Bounds) -> Iterator[Address]:
        known, family = self._loaded(), bounds.family
        for at in range(bisect_left(known, (family, bounds.first)), bisect_right(known, (family, bounds.last))):
            yield _made(*known[at])
        for event in self._reader.store.pending():
            if event.bucket == self._allocated and bounds.holds(address := _made(*_number(event.entry.name))):
                yield address

    def _loaded(self) -> list[tuple[int, int]]:
        if self._known is None:
            # No await until the list below is taken: `_changed` needs it, and an address in between would be in
            # neither.
            self._reader.store.subscribe(self._allocated, self._changed)
            self._known = sorted(_number(entry.name) for entry in self._reader.store.list(self._allocated).entries)
        return self._known

    def _changed(self, events: Sequence[Event]) -> None:
        assert self._known is not None, "they are subscribed to when they are loaded"
        for event in events:
            number = _number(event.entry.name)
            if event.type == "ADDED":
                insort(self._known, number)
            elif event.type == "DELETED":
                del self._known[bisect_left(self._known, number)]


def _number(name: str) -> tuple[int, int]:
    return (4, int(IPv4Address(name))) if "." in name else (6, int(name, 16))


def _made(family: int, number: int) -> Address:
    return IPv4Address(number) if family == 4 else IPv6Address(number)


def _holder(source_ip: JsonObject | None) -> str | None:
    """Return the current or recent holder of an address, or None."""
    claim, status = mapping(source_ip, "spec", "claimRef"), mapping(source_ip, "status")
    if claim:
        return f"{claim.get('kind') or 'claim'} {claim.get('namespace')}/{claim.get('name') or '*'}"
    if status.get("phase") not in _RESTING:
        return None
    last = mapping(status, "lastClaim")
    kind = last.get("kind") or "claim"
    return f"resting after {kind} {last.get('namespace')}/{last.get('name')}" if last else "resting"
