"""Evaluates allowances for connections and computes their address sets. Pure, at most O(n log n).

Addresses are spans: the first and the last, as numbers. A range with n exceptions is at most n + 1 spans, but many
times as many prefixes. Allowances of one direction are additive, so those with the same ports are merged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from tarmac.base.ipnumbers import packed_address
from tarmac.decide.reach.policyrules import Allowance, PortRange

Span = tuple[int, int]
"""First and last number of a range."""

Groups = Mapping[tuple[PortRange, ...] | None, Sequence[Span] | None]
"""Allowed addresses by allowed ports; None means all."""

_ALL_PORTS: Final[Span] = (0, 65535)
_COMPARISONS: Final = 10_000
"""Limit of compared pairs of groups; beyond it a change of rules counts as one that may revoke permissions."""


def permits(allowances: Sequence[Allowance] | None, peer: str, protocol: str, port: int | None) -> bool:
    """Return True if a connection with a peer passes. A protocol without ports has None."""
    return Permission(allowances).permits(peer, protocol, port)


class Permission:
    """Allowances of one direction, prepared for many queries. `cost` is the relative cost of one query."""

    def __init__(self, allowances: Sequence[Allowance] | None) -> None:
        groups = {version == 6: grouped(allowances or (), version) for version in (4, 6)}
        self._groups = None if allowances is None else groups
        self.cost: Final = 1 + sum(1 + len(ports or ()) for each in groups.values() for ports in each)

    def permits(self, peer: str, protocol: str, port: int | None) -> bool:
        """Return True if a connection with a peer passes. A protocol without ports has None."""
        if self._groups is None:
            return True
        six = ":" in peer
        number = int.from_bytes(packed_address(peer))
        return any(
            _holds(spans, number) and _port_is_meant(ports, protocol, port)
            for ports, spans in self._groups[six].items()
        )


def widens(before: Sequence[Allowance] | None, after: Sequence[Allowance] | None) -> bool:
    """Return True if everything that was permitted certainly still is. May return False needlessly."""
    if after is None or before is after:
        return True
    return before is not None and all(
        _covers_all(grouped(after, version), grouped(before, version)) for version in (4, 6)
    )


def grouped(allowances: Iterable[Allowance], version: int) -> Groups:
    """Merge allowances of one family by their ports; groups without an address are left out."""
    found: dict[tuple[PortRange, ...] | None, list[Span] | None] = {}
    for allowance in allowances:
        meant = ranges(allowance, version)
        if allowance.ports not in found:
            found[allowance.ports] = []
        known = found[allowance.ports]
        if meant is None:
            found[allowance.ports] = None
        elif known is not None:
            known += meant
    return {ports: None if spans is None else union(spans) for ports, spans in found.items() if spans != []}


def ranges(allowance: Allowance, version: int) -> list[Span] | None:
    """Return the addresses of one family in an allowance as minimal sorted spans; None means all."""
    if allowance.peers is None:
        return None
    return _without(collapsed(allowance.peers, version), collapsed(allowance.excluded, version))


def merged(ports: Iterable[PortRange]) -> list[Span] | None:
    """Return ports as disjoint sorted ranges; None means all of them."""
    found = union(_bounds(each) for each in ports)
    return None if found == [_ALL_PORTS] else found


def collapsed(values: Iterable[str], version: int) -> list[Span]:
    """Return the ranges of one family as minimal sorted spans."""
    return union(_span(each) for each in values if (":" in each) == (version == 6))


def union(spans: Iterable[Span]) -> list[Span]:
    """Return the same numbers in as few spans as possible, sorted."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def written(span: Span, version: int) -> str:
    """Return a span of addresses in nft syntax."""
    address = IPv4Address if version == 4 else IPv6Address
    first, last = span
    return str(address(first)) if first == last else f"{address(first)}-{address(last)}"


def _span(cidr: str) -> Span:
    address, _, length = cidr.partition("/")
    packed = packed_address(address)
    bits = len(packed) * 8
    inner = (1 << (bits - int(length or bits))) - 1
    first = int.from_bytes(packed) & ~inner
    return first, first | inner


def _without(whole: Sequence[Span], holes: Sequence[Span]) -> list[Span]:
    """Subtract holes from spans. Both are disjoint and sorted, so one pass is enough."""
    found: list[Span] = []
    at = 0
    for begin, last in whole:
        first = begin
        while at < len(holes) and holes[at][1] < first:
            at += 1
        while at < len(holes) and holes[at][0] <= last:
            if holes[at][0] > first:
                found.append((first, holes[at][0] - 1))
            first = holes[at][1] + 1
            if first > last:
                break  # this hole may reach into the next span
            at += 1
        if first <= last:
            found.append((first, last))
    return found


def _covers_all(after: Groups, before: Groups) -> bool:
    if len(after) * len(before) > _COMPARISONS:
        return False
    return all(_covers(after, ports, spans) for ports, spans in before.items())


def _covers(groups: Groups, ports: tuple[PortRange, ...] | None, spans: Sequence[Span] | None) -> bool:
    """Return True if the groups allow at least these spans at these ports."""
    wider = [
        each for others, each in groups.items() if others is None or (ports is not None and set(ports) <= set(others))
    ]
    if any(each is None for each in wider):
        return True
    return spans is not None and not _without(spans, union(span for each in wider for span in each or ()))


def _holds(spans: Sequence[Span] | None, number: int) -> bool:
    if spans is None:
        return True
    at = bisect_right(spans, (number, 1 << 128)) - 1
    return at >= 0 and number <= spans[at][1]


def _port_is_meant(ports: Sequence[PortRange] | None, protocol: str, port: int | None) -> bool:
    if ports is None:
        return True
    return any(
        each.protocol == protocol and port is not None and _bounds(each)[0] <= port <= _bounds(each)[1]
        for each in ports
    )


def _bounds(ports: PortRange) -> Span:
    if ports.first is None:
        return _ALL_PORTS
    return ports.first, ports.first if ports.last is None else ports.last
