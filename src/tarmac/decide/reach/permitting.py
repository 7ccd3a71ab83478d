"""Whether rules let a connection be, and the addresses they mean. Pure, and never more than n log n.

Addresses are spans: the first and the last, as numbers. A range with n holes is at most n + 1 spans, where it would be
many times as many prefixes. Allowances of one direction add up, so those with the same ports are one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from tarmac.base.ipnumbers import packed_address
from tarmac.decide.reach.allowances import Allowance, Ports

Span = tuple[int, int]
"""The first and the last of what is meant."""

Groups = Mapping[tuple[Ports, ...] | None, Sequence[Span] | None]
"""Addresses by the ports they may be talked with at; None means all."""

_EVERY_PORT: Final[Span] = (0, 65535)
_COMPARISONS: Final = 10_000
"""Pairs of groups that are compared before a change of rules counts as one that may take something away."""


def permits(allowances: Sequence[Allowance] | None, peer: str, protocol: str, port: int | None) -> bool:
    """Whether a connection with a peer passes. A protocol without ports has None."""
    return Permission(allowances).permits(peer, protocol, port)


class Permission:
    """Allowances of one direction, made ready to be asked often. `cost` says how much one question is."""

    def __init__(self, allowances: Sequence[Allowance] | None) -> None:
        groups = {version == 6: grouped(allowances or (), version) for version in (4, 6)}
        self._groups = None if allowances is None else groups
        self.cost: Final = 1 + sum(1 + len(ports or ()) for each in groups.values() for ports in each)

    def permits(self, peer: str, protocol: str, port: int | None) -> bool:
        """Whether a connection with a peer passes. A protocol without ports has None."""
        if self._groups is None:
            return True
        six = ":" in peer
        number = int.from_bytes(packed_address(peer))
        return any(
            _holds(spans, number) and _port_is_meant(ports, protocol, port)
            for ports, spans in self._groups[six].items()
        )


def widens(before: Sequence[Allowance] | None, after: Sequence[Allowance] | None) -> bool:
    """Whether everything that was permitted plainly still is. It may say no when it only looks so."""
    if after is None or before is after:
        return True
    return before is not None and all(
        _covers_all(grouped(after, version), grouped(before, version)) for version in (4, 6)
    )


def grouped(allowances: Iterable[Allowance], version: int) -> Groups:
    """What allowances mean in one family, those with the same ports as one; groups without an address are left out."""
    found: dict[tuple[Ports, ...] | None, list[Span] | None] = {}
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
    """The addresses of one family that an allowance means, least in number and in order; None means all."""
    if allowance.peers is None:
        return None
    return _without(collapsed(allowance.peers, version), collapsed(allowance.excluded, version))


def merged(ports: Iterable[Ports]) -> list[Span] | None:
    """Ports as disjoint ranges in order; None means all of them."""
    found = union(_bounds(each) for each in ports)
    return None if found == [_EVERY_PORT] else found


def collapsed(values: Iterable[str], version: int) -> list[Span]:
    """The ranges of one family among these, least in number and in order."""
    return union(_span(each) for each in values if (":" in each) == (version == 6))


def union(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in as few spans as possible, in order."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def written(span: Span, version: int) -> str:
    """A span of addresses in nft's language."""
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
    """What is left of spans without others; both disjoint and in order, so that each is looked at once."""
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


def _covers(groups: Groups, ports: tuple[Ports, ...] | None, spans: Sequence[Span] | None) -> bool:
    """Whether groups let through at these ports at least what they say."""
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


def _port_is_meant(ports: Sequence[Ports] | None, protocol: str, port: int | None) -> bool:
    if ports is None:
        return True
    return any(
        each.protocol == protocol and port is not None and _bounds(each)[0] <= port <= _bounds(each)[1]
        for each in ports
    )


def _bounds(ports: Ports) -> Span:
    if ports.first is None:
        return _EVERY_PORT
    return ports.first, ports.first if ports.last is None else ports.last
