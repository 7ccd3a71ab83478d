"""Assigns the addresses of one interface of an instance: one of each requested family, or none at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from tarmac.api.compute.instance import InterfaceAddress
from tarmac.api.shared import IPFamily
from tarmac.base.ipnumbers import packed_address
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal, Verdict

_FIRST_OFFSET: Final = 2
_WINDOW: Final = 1 << 16

FIRST_VNI: Final = 4097  # lower numbers are often used by other systems
LAST_VNI: Final = (1 << 24) - 1


# Number allocator: a bitmap in one integer, each number with at most one holder.
#
# Finding the lowest free number costs a few machine instructions for each 30 numbers in use, which for a subnet of
# 4,096 addresses is a fraction of a microsecond; the whole set of a subnet takes half a kilobyte.


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers from 0 to size - 1; bit n of `taken` is set if n is in use."""

    size: int
    taken: int = 0

    @staticmethod
    def of(size: int, taken: Iterable[int]) -> Numbers:
        """Return an allocator with these numbers in use. Numbers out of range are ignored."""
        inside = [number for number in taken if 0 <= number < size]
        bitmap = bytearray(max(inside, default=-1) // 8 + 1)
        for number in inside:
            bitmap[number >> 3] |= 1 << (number & 7)
        return Numbers(size, int.from_bytes(bitmap, "little"))

    def lowest(self) -> int | None:
        """Return the lowest free number; None if all are in use."""
        number = (~self.taken & (self.taken + 1)).bit_length() - 1
        return number if number < self.size else None

    def is_free(self, number: int) -> bool:
        """Return True if a number is in range and not in use."""
        return 0 <= number < self.size and not self.taken >> number & 1

    def holding(self, number: int) -> Numbers:
        """Return a copy with that number in use."""
        return replace(self, taken=self.taken | 1 << number) if 0 <= number < self.size else self

    def releasing(self, number: int) -> Numbers:
        """Return a copy with that number free."""
        return replace(self, taken=self.taken & ~(1 << number)) if 0 <= number < self.size else self

    @property
    def free(self) -> int:
        """The count of free numbers."""
        return self.size - self.taken.bit_count()


def vni_numbers(taken: Iterable[int] = ()) -> Numbers:
    """Return the allocator of VNIs, counted from `FIRST_VNI`, with these in use."""
    return Numbers.of(LAST_VNI - FIRST_VNI + 1, (vni - FIRST_VNI for vni in taken))


def allocate_vni(numbers: Numbers) -> Verdict[int]:
    """Return the lowest free VNI, which separates a network's traffic on the wire."""
    lowest = numbers.lowest()
    if lowest is not None:
        return Verdict(FIRST_VNI + lowest)
    message = f"All network identifiers from {FIRST_VNI} to {LAST_VNI} are in use."
    change = "Delete networks that are no longer needed."
    return Verdict(None, (Refusal(reasons.NETWORK_IDS_EXHAUSTED, message, rule="addresses.vni", change=change),))


# Address allocator of one subnet.
#
# The first address is the network address, the second is the gateway, and the last of an IPv4 subnet is the broadcast
# address; none of them is assigned. Of a subnet larger than 65,536 addresses only the lowest 65,536 are assigned, which
# bounds memory; addresses beyond them may be in use and are not tracked.


@dataclass(frozen=True, slots=True)
class SubnetPool:
    """A subnet and its addresses in use."""

    subnet: IPv4Network | IPv6Network
    first: int  # the first assignable address
    numbers: Numbers

    @staticmethod
    def of(subnet: str, taken: Iterable[str] = ()) -> SubnetPool:
        """Return the pool of a subnet with these addresses in use; the prefix length of an address is ignored."""
        network = ip_network(subnet)
        last = 1 if network.version == 4 else 0
        size = max(min(network.num_addresses, _WINDOW) - _FIRST_OFFSET - last, 0)
        pool = SubnetPool(network, int(network.network_address) + _FIRST_OFFSET, Numbers(size))
        return replace(pool, numbers=Numbers.of(size, map(pool._number, taken)))

    @property
    def gateway(self) -> str:
        """The gateway of the subnet."""
        return str(self.subnet.network_address + 1)

    @property
    def free(self) -> int:
        """The count of free addresses."""
        return self.numbers.free

    def is_free(self, address: str) -> bool:
        """Return True if the address is assignable and free."""
        return self.numbers.is_free(self._number(address))

    def take(self, address: str = "") -> tuple[str, SubnetPool] | None:
        """Take the given address or the lowest free one; return it with the remaining pool. None if it is not free."""
        number = self._number(address) if address else self.numbers.lowest()
        if number is None or not self.numbers.is_free(number):
            return None
        found = self.subnet.network_address + (_FIRST_OFFSET + number)
        return str(found), replace(self, numbers=self.numbers.holding(number))

    def release(self, address: str) -> SubnetPool:
        """Return the pool with the address released."""
        return replace(self, numbers=self.numbers.releasing(self._number(address)))

    def _number(self, address: str) -> int:
        """Return the index of an address among the assignable ones; out of range if it is not assignable."""
        try:
            packed = packed_address(address.partition("/")[0])
        except OSError:
            return -1
        return int.from_bytes(packed) - self.first if len(packed) * 8 == self.subnet.max_prefixlen else -1


Pools = Mapping[IPFamily, Sequence[SubnetPool]]
"""The subnets of a network at one Location, by family; the first with a free address is used."""

_RULE: Final = "addresses.interfaces"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The addresses of an interface in the order of its families, and the remaining pools."""

    addresses: tuple[InterfaceAddress, ...]
    pools: Pools


def assign(pools: Pools, families: Sequence[IPFamily], preferred: Iterable[str] = ()) -> Verdict[Assignment]:
    """Assign one address of each family; `preferred` addresses are reused if they are free.

    An interface without families has those of its network: the caller passes the effective ones.
    """
    wishes = list(preferred)
    left: dict[IPFamily, Sequence[SubnetPool]] = dict(pools)
    addresses: list[InterfaceAddress] = []
    refusals: list[Refusal] = []
    for family in families:
        candidates = left.get(family, ())
        taken = _take(candidates, wishes)
        if taken is None:
            refusals.append(_refusal(family, candidates, carried=tuple(pools)))
            continue
        index, address, pool = taken
        left[family] = (*candidates[:index], pool, *candidates[index + 1 :])
        addresses.append(InterfaceAddress(family, f"{address}/{pool.subnet.prefixlen}", pool.gateway))
    return Verdict(None, tuple(refusals)) if refusals else Verdict(Assignment(tuple(addresses), left))


def release(pools: Pools, addresses: Iterable[str]) -> Pools:
    """Return the pools with the addresses released, regardless of their subnet."""
    left: dict[IPFamily, Sequence[SubnetPool]] = dict(pools)
    for address in addresses:
        family: IPFamily = "IPv6" if ":" in address else "IPv4"
        left[family] = tuple(pool.release(address) for pool in left.get(family, ()))
    return left


def mac_address(network: str, address: str) -> str:
    """Derive a MAC address from an IP address, so that it is as unique in the network."""
    digest = sha256(f"{network}\0{address.partition('/')[0]}".encode()).digest()
    return ":".join(["02", *(f"{byte:02x}" for byte in digest[:5])])  # 02: locally administered, unicast


def _take(pools: Sequence[SubnetPool], wishes: Iterable[str]) -> tuple[int, str, SubnetPool] | None:
    for wish in wishes:
        for index, pool in enumerate(pools):
            if pool.is_free(wish):
                found = pool.take(wish)
                return (index, *found) if found else None
    for index, pool in enumerate(pools):
        found = pool.take()
        if found is not None:
            return (index, *found)
    return None


def _refusal(family: IPFamily, pools: Sequence[SubnetPool], carried: Sequence[IPFamily]) -> Refusal:
    if not pools:
        message = f"The network carries {' and '.join(carried) or 'no address family'} here, not {family}."
        change = f"Take {family} out of the interface's ipFamilies, or use a network that carries it."
        return Refusal(reasons.ADDRESS_FAMILY_NOT_CARRIED, message, rule=_RULE, change=change)
    ranges = ", ".join(str(pool.subnet) for pool in pools)
    message = f"No address of {ranges} is free; all {sum(pool.numbers.size for pool in pools)} are in use."
    change = "Add another subnet to the network here, or remove instances from it."
    return Refusal(reasons.ADDRESS_POOL_EXHAUSTED, message, ranges, _RULE, change)
