"""Default ranges of networks, and subnets carved from ranges.

Each context of a network gets its own subnet: a /20 of IPv4, a /64 of IPv6. A smaller range is divided into sixteenths,
down to sixteen addresses, so that even a small network reaches several cities.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from tarmac.api.networking.network import SubnetStatus
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal, Verdict

Range = IPv4Network | IPv6Network

_IPV4_RANGES: Final = ("10.128.0.0/9", "172.16.0.0/12", "100.64.0.0/10", "192.168.0.0/16")
_IPV6_RANGES: Final = IPv6Network("fd20::/20")
_IPV6_RANGE_PREFIX: Final = 48
_SUBNET_PREFIX: Final = {4: 20, 6: 64}
_MIN_BITS: Final = 4
_RULE: Final = "addresses.subnets"


def range_of(status: SubnetStatus | None) -> str:
    """Return the range of a Subnet; empty while it has none."""
    return f"{status.start_address}/{status.prefix_length}" if status is not None and status.start_address else ""


def default_range(
    family: IPFamily,
    identity: str,
    taken: Collection[str] = (),
    nodes_in: Callable[[str], int] = lambda _: 0,
) -> str:
    """Return the default range of a network: an IPv4 range that networks may share, or an IPv6 /48 of its own.

    For IPv4 it is the first range without a node that overlaps none of those taken, so that an instance can be attached
    to several networks; else the first without a node; else the one with the fewest nodes, because a node may claim
    addresses that it does not have, and must not leave networks without a range. The /48 is derived from the network's
    identity, so that networks of different control planes are unlikely to clash if they are joined later.
    """
    if family == "IPv4":
        possible = [each for each in _IPV4_RANGES if not nodes_in(each)] or [min(_IPV4_RANGES, key=nodes_in)]
        return next((each for each in possible if not _overlapping(ip_network(each), taken)), possible[0])
    bits = _IPV6_RANGE_PREFIX - _IPV6_RANGES.prefixlen
    number = int.from_bytes(sha256(identity.encode()).digest()[:8], "big") % (1 << bits)
    while (found := _nth_range(number)) in taken or nodes_in(found):
        number = (number + 1) % (1 << bits)
    return found


def _nth_range(number: int) -> str:
    start = int(_IPV6_RANGES.network_address) + (number << (128 - _IPV6_RANGE_PREFIX))
    return f"{IPv6Address(start)}/{_IPV6_RANGE_PREFIX}"


def subnet_prefix(whole: str) -> int:
    """Return the prefix length of subnets of a range."""
    network = ip_network(whole)
    usual, smallest = _SUBNET_PREFIX[network.version], network.max_prefixlen - _MIN_BITS
    if network.prefixlen <= usual:
        return usual
    return max(min(network.prefixlen + _MIN_BITS, smallest), network.prefixlen)


def carve(whole: str, taken: Iterable[str], prefix: int | None = None, start: str = "") -> Verdict[str]:
    """Return a free subnet of the range: the lowest, or the one that begins at `start`."""
    network = ip_network(whole)
    prefix = subnet_prefix(whole) if prefix is None else prefix
    if not network.prefixlen <= prefix <= network.max_prefixlen:
        return _no(f"{whole} holds no /{prefix}.", f"Ask for a prefix from {network.prefixlen} on.")
    used = _overlapping(network, taken)
    if start:
        return _at(network, used, prefix, start)
    found = _lowest_gap(network, used, prefix)
    if found is None:
        possible = 1 << (prefix - network.prefixlen)
        message = f"{whole} has no free /{prefix}; it holds {possible} of them, and {len(used)} subnets are in it."
        return _no(message, f"Use a network whose {_field(network)} is larger than {whole}, or in fewer places.")
    return Verdict(f"{_address(network, found)}/{prefix}")


def _overlapping(network: Range, taken: Iterable[str]) -> list[tuple[int, int]]:
    """Return the taken spans that overlap the range as (first, end), end exclusive; sorted."""
    spans = [_span_of(each) for each in taken if (":" in each) == (network.version == 6)]
    low, high = _span(network)
    return sorted((first, behind) for first, behind in spans if first < high and behind > low)


@lru_cache(maxsize=1 << 14)
def _span_of(written: str) -> tuple[int, int]:
    """Cached, because the same texts are parsed for every subnet of a network, and parsing dominates."""
    return _span(ip_network(written))


def _span(network: Range) -> tuple[int, int]:
    first = int(network.network_address)
    return first, first + network.num_addresses


def _lowest_gap(network: Range, used: list[tuple[int, int]], prefix: int) -> int | None:
    size = 1 << (network.max_prefixlen - prefix)
    candidate, end = _span(network)
    for first, behind in used:
        if candidate + size <= first:
            break
        candidate = max(candidate, -(-behind // size) * size)
    return candidate if candidate + size <= end else None


def _at(network: Range, used: list[tuple[int, int]], prefix: int, start: str) -> Verdict[str]:
    try:
        wanted = ip_network(f"{start}/{prefix}")
    except ValueError:
        return _no(f"{start} does not begin a /{prefix}.", "Ask for a start address without host bits.")
    low, high = _span(wanted)
    range_low, range_high = _span(network)
    if wanted.version != network.version or low < range_low or high > range_high:
        return _no(f"{wanted} is not in {network}.", f"Ask for a start address in {network}.")
    if any(first < high and behind > low for first, behind in used):
        return _no(f"{wanted} is in use.", "Leave the start address out to get one that is free.")
    return Verdict(str(wanted))


def _address(network: Range, number: int) -> IPv4Address | IPv6Address:
    return IPv4Address(number) if network.version == 4 else IPv6Address(number)


def _field(network: Range) -> str:
    return "ipv4Range" if network.version == 4 else "ipv6Range"


def _no(message: str, change: str) -> Verdict[str]:
    return Verdict(None, (Refusal(reasons.ADDRESS_RANGE_EXHAUSTED, message, rule=_RULE, change=change),))
