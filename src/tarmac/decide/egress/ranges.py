"""The addresses of a class: which it has, which of them are never handed out, and in what order they are tried."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from tarmac.api.submariner.addressrules import Bounds, bounds_of
from tarmac.api.submariner.names import Address
from tarmac.api.submariner.sourceip import SourceIPClassSpec

MOST_COUNTED = 1 << 53  # more addresses than that are counted as so many: numbers in JSON end there


def family_of(address: Address) -> str:
    """As claims write it."""
    return f"IPv{address.version}"


def digest(*parts: str) -> int:
    """A number that is the same wherever and whenever it is asked for."""
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:8])


class Ranges:
    """The ranges of one class. `interfaces` are the addresses that gateways themselves have."""

    def __init__(self, spec: SourceIPClassSpec, interfaces: Collection[Address] = ()) -> None:
        self._spec = spec
        self._bounds = [bounds_of(each) for each in spec.ranges]
        self._apart: set[Address] = {*interfaces, *self._edges()}
        if spec.subnet is not None and spec.subnet.gateway:
            self._apart.add(ip_address(spec.subnet.gateway))

    def hold(self, address: Address) -> bool:
        """Whether the class offers an address."""
        return any(each.holds(address) for each in self._bounds)

    def reserve(self, address: Address) -> bool:
        """Whether an address is never handed out."""
        return address in self._apart or self._is_edge(address)

    def size(self, family: int) -> int:
        """How many addresses can be handed out."""
        bounds = [each for each in self._bounds if each.family == family]
        apart = sum(
            any(each.holds(address) for each in bounds) for address in self._apart if not self._is_edge(address)
        )
        whole = sum(each.last - each.first + 1 for each in bounds)
        return min(whole - apart - self._segment_edges(bounds), MOST_COUNTED)

    def search(self, family: int, start: int) -> Iterator[Address]:
        """Every address that can be handed out, upward from a place that `start` stands for, and round again."""
        bounds = [each for each in self._bounds if each.family == family]
        total = sum(each.last - each.first + 1 for each in bounds)
        for step in range(total):
            address = _nth(bounds, (start + step) % total)
            if not self.reserve(address):
                yield address

    def _edges(self) -> Iterator[Address]:
        """Where the class names no segment, its ranges are taken for segments: their first and last are no host's."""
        for written in self._spec.ranges if self._spec.subnet is None or not self._spec.subnet.prefix_length else ():
            whole = ip_network(written.cidr) if written.cidr else None
            if whole is not None and whole.max_prefixlen - whole.prefixlen >= 2:
                yield whole[0]
                if whole.version == 4:
                    yield whole[-1]

    def _prefix(self, family: int) -> int | None:
        """How long the prefix of a segment of the family is, if the class says so. Lengths over 32 are of IPv6."""
        length = self._spec.subnet.prefix_length if self._spec.subnet is not None else None
        return length if length is not None and (length > 32) == (family == 6) else None

    def _is_edge(self, address: Address) -> bool:
        length = self._prefix(address.version)
        if length is None or address.max_prefixlen - length < 2:
            return False
        rest = int(address) & ((1 << (address.max_prefixlen - length)) - 1)
        return rest == 0 or (address.version == 4 and rest == (1 << (address.max_prefixlen - length)) - 1)

    def _segment_edges(self, bounds: list[Bounds]) -> int:
        """How many edges of segments lie in the bounds."""
        found = 0
        for family, first, last in bounds:
            length, bits = self._prefix(family), 32 if family == 4 else 128
            if length is not None and bits - length >= 2:
                step = 1 << (bits - length)
                found += last // step - (first - 1) // step
                found += (last + 1) // step - first // step if family == 4 else 0
        return found


def _nth(bounds: list[Bounds], index: int) -> Address:
    for family, first, last in bounds:
        if index <= last - first:
            return IPv4Address(first + index) if family == 4 else IPv6Address(first + index)
        index -= last - first + 1
    raise IndexError(index)
