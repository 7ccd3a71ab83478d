"""Address ranges of a class or pool: membership, reserved addresses, and the search order for free ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Protocol

from tarmac.api.egress.addressrules import Bounds, bounds_of
from tarmac.api.egress.names import Address
from tarmac.api.egress.sourceip import AddressRange, ClassSubnet

MAX_COUNTED = 1 << 53  # cap of counts: the largest integer that is exact in JSON


def family_of(address: Address) -> str:
    """Return the family as written in claims."""
    return f"IPv{address.version}"


def digest(*parts: str) -> int:
    """Return a stable hash of strings, the same on every host and in every process."""
    return int.from_bytes(sha256("\0".join(parts).encode()).digest()[:8])


class Offered(Protocol):
    """The spec of a class or pool, as far as its addresses are concerned."""

    @property
    def ranges(self) -> Sequence[AddressRange]:
        """The addresses."""
        ...

    @property
    def subnet(self) -> ClassSubnet | None:
        """The segment that they belong to."""
        ...


class Ranges:
    """The ranges of one class or pool. `interfaces` are the gateways' own addresses, which are reserved."""

    def __init__(self, spec: Offered, interfaces: Collection[Address] = ()) -> None:
        self._spec = spec
        self._bounds = [bounds_of(each) for each in spec.ranges]
        self._apart: set[Address] = {*interfaces, *self._edges()}
        if spec.subnet is not None and spec.subnet.gateway:
            self._apart.add(ip_address(spec.subnet.gateway))

    def hold(self, address: Address) -> bool:
        """Return True if a range of the class holds the address."""
        return any(each.holds(address) for each in self._bounds)

    def reserve(self, address: Address) -> bool:
        """Return True if an address is reserved and never assigned."""
        return address in self._apart or self._is_edge(address)

    def size(self, family: int) -> int:
        """Count the assignable addresses, capped at `MAX_COUNTED`."""
        bounds = [each for each in self._bounds if each.family == family]
        apart = sum(
            any(each.holds(address) for each in bounds) for address in self._apart if not self._is_edge(address)
        )
        whole = sum(each.last - each.first + 1 for each in bounds)
        return min(whole - apart - self._segment_edges(bounds), MAX_COUNTED)

    def search(self, family: int, start: int) -> Iterator[Address]:
        """Yield every assignable address upward from offset `start`, wrapping around."""
        bounds = [each for each in self._bounds if each.family == family]
        total = sum(each.last - each.first + 1 for each in bounds)
        for step in range(total):
            address = _nth(bounds, (start + step) % total)
            if not self.reserve(address):
                yield address

    def _edges(self) -> Iterator[Address]:
        """Yield the ranges' network and broadcast addresses: without a prefix length each range counts as a segment."""
        for written in self._spec.ranges if self._spec.subnet is None or not self._spec.subnet.prefix_length else ():
            whole = ip_network(written.cidr) if written.cidr else None
            if whole is not None and whole.max_prefixlen - whole.prefixlen >= 2:
                yield whole[0]
                if whole.version == 4:
                    yield whole[-1]

    def _prefix(self, family: int) -> int | None:
        """Return the class's prefix length if it is of the family: a length over 32 is of IPv6."""
        length = self._spec.subnet.prefix_length if self._spec.subnet is not None else None
        return length if length is not None and (length > 32) == (family == 6) else None

    def _is_edge(self, address: Address) -> bool:
        length = self._prefix(address.version)
        if length is None or address.max_prefixlen - length < 2:
            return False
        rest = int(address) & ((1 << (address.max_prefixlen - length)) - 1)
        return rest == 0 or (address.version == 4 and rest == (1 << (address.max_prefixlen - length)) - 1)

    def _segment_edges(self, bounds: list[Bounds]) -> int:
        """Count the first and last addresses of segments within the bounds."""
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
