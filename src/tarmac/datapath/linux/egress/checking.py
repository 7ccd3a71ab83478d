"""Validates external services before any part becomes nft text: addresses of one family, and ports.

An invalid part is left out and does not affect other parts, also if only the kernel detects it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TypeVar

from tarmac.datapath.egress import Forwarding, SourceAddress
from tarmac.datapath.linux.nftables import NftablesFault

T = TypeVar("T")


def check_forwarding(part: Forwarding) -> None:
    """Validate a forwarding. Raises ValueError."""
    for out in part.departures:
        _one_family(out.pod, out.dialled, out.target, out.transit, out.source)
        _ports(out.port, out.target_port)
    for back in part.arrivals:
        _one_family(back.endpoint[0], back.target, back.transit, back.source)
        _ports(back.port, back.endpoint[1])


def check_source(part: SourceAddress) -> None:
    """Validate a SourceIP. Raises ValueError."""
    ends = [part.address, *(end for way in (*part.exits, *part.entrances) for end in (way.target, way.transit))]
    _one_family(*ends)
    _ports(part.mark, *(way.port for way in (*part.exits, *part.entrances)))
    for node in (*part.candidates, *(way.node for way in (*part.exits, *part.entrances))):
        _one_family(node)
    if part.outside is not None:
        _one_family(part.address, *([part.outside.gateway] if part.outside.gateway else []))
        if ip_network(part.outside.segment).version != _version(part.address):
            raise ValueError(f"{part.outside.segment} is not of the family of {part.address}")


def _one_family(*addresses: str) -> None:
    version = _version(addresses[0])
    for each in addresses:
        if _version(each) != version:
            raise ValueError(f"{each} is not an address of IPv{version}")


@lru_cache(maxsize=1 << 16)
def _version(address: str) -> int:
    """Return the IP version. Cached, since every address is checked on each change. Raises ValueError."""
    parsed = ip_address(address)
    if str(parsed) != address:  # the kernel prints the canonical form, so the table would appear to have changed
        raise ValueError(f"{address} is usually written {parsed}")
    return parsed.version


def _ports(*numbers: int) -> None:
    for each in numbers:
        if not 0 < each < 1 << 16:
            raise ValueError(f"{each} is not between 1 and 65535")


def leaving_out(parts: Sequence[T], attempt: Callable[[Sequence[T]], None]) -> list[tuple[T, NftablesFault]]:
    """Attempt with as many parts as the kernel accepts, found by bisection; return the rejected parts with the reason.

    A failed attempt changes nothing, so the last successful one is in force.
    """
    good: list[T] = []
    bad: list[tuple[T, NftablesFault]] = []

    def add(some: Sequence[T]) -> None:
        try:
            attempt([*good, *some])
        except NftablesFault as fault:
            if len(some) <= 1:
                bad.extend((each, fault) for each in some)
                return
            add(some[: len(some) // 2])
            add(some[len(some) // 2 :])
        else:
            # Kept for every later attempt, so the last successful one contains all good parts.
            good.extend(some)

    add(parts)
    return bad
