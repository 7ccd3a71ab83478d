"""Assigns the addresses of one interface of an instance: one of each requested family, or none at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from tarmac.api.compute.instance import InterfaceAddress
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.addresses.pool import Pool
from tarmac.decide.verdict import Refusal, Verdict

Pools = Mapping[IPFamily, Sequence[Pool]]
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
    left: dict[IPFamily, Sequence[Pool]] = dict(pools)
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
    left: dict[IPFamily, Sequence[Pool]] = dict(pools)
    for address in addresses:
        family: IPFamily = "IPv6" if ":" in address else "IPv4"
        left[family] = tuple(pool.release(address) for pool in left.get(family, ()))
    return left


def mac_address(network: str, address: str) -> str:
    """Derive a MAC address from an IP address, so that it is as unique in the network."""
    digest = sha256(f"{network}\0{address.partition('/')[0]}".encode()).digest()
    return ":".join(["02", *(f"{byte:02x}" for byte in digest[:5])])  # 02: locally administered, unicast


def _take(pools: Sequence[Pool], wishes: Iterable[str]) -> tuple[int, str, Pool] | None:
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


def _refusal(family: IPFamily, pools: Sequence[Pool], carried: Sequence[IPFamily]) -> Refusal:
    if not pools:
        message = f"The network carries {' and '.join(carried) or 'no address family'} here, not {family}."
        change = f"Take {family} out of the interface's ipFamilies, or use a network that carries it."
        return Refusal(reasons.ADDRESS_FAMILY_NOT_CARRIED, message, rule=_RULE, change=change)
    ranges = ", ".join(str(pool.subnet) for pool in pools)
    message = f"No address of {ranges} is free; all {sum(pool.numbers.size for pool in pools)} are in use."
    change = "Add another subnet to the network here, or remove instances from it."
    return Refusal(reasons.ADDRESS_POOL_EXHAUSTED, message, ranges, _RULE, change)
