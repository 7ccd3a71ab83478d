"""Rejects networks with overlapping ranges on one instance.

Packets are routed by destination. If an address is in the ranges of two networks, an instance reaches it in one of them
only; it can neither call nor answer the holder in the other network, although names resolve to it. A more specific
route does not help: subnets of the wider network may lie within the narrower one, if not today then with its next city.
So such interfaces are never attached together. Ranges never change, so an accepted combination stays valid. Two
interfaces on the same network reach the same neighbours, and are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_network
from typing import NamedTuple

from tarmac.api.compute.instance import NetworkInterface
from tarmac.api.networking.network import Network
from tarmac.api.shared import IPFamily
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


class Overlap(NamedTuple):
    """The position of an interface that overlaps an earlier one, and the refusal."""

    position: int
    refusal: Refusal


class _Span(NamedTuple):
    version: int
    first: int
    last: int
    position: int
    network: str  # namespace/name
    range: str


def overlap(
    namespace: str, interfaces: Sequence[NetworkInterface], network: Callable[[str], Network | None]
) -> Overlap | None:
    """Return an overlap between two interfaces of one instance, if there is one.

    `network` finds a Network by namespace/name; a missing Network, or one without a range yet, overlaps nothing.
    """
    if len(interfaces) < 2:
        return None
    before: _Span | None = None
    for span in sorted(_spans(namespace, interfaces, network)):
        if before is not None and before.network != span.network and _meet(before, span):
            return _overlap_of(before, span, interfaces)
        before = span
    return None


def _meet(one: _Span, next: _Span) -> bool:
    return one.version == next.version and next.first <= one.last


def _spans(
    namespace: str, interfaces: Sequence[NetworkInterface], network: Callable[[str], Network | None]
) -> Iterator[_Span]:
    for position, interface in enumerate(interfaces):
        key = f"{interface.network.namespace or namespace}/{interface.network.name}"
        found = network(key)
        if found is None:
            continue
        for family in interface.ip_families or found.spec.ip_families:
            try:
                whole = ip_network(_range(found, family))
            except ValueError:  # no range yet, or an invalid one stored by a server without our validation
                continue
            first, last = int(whole.network_address), int(whole.broadcast_address)
            yield _Span(whole.version, first, last, position, key, str(whole))


def _range(network: Network, family: IPFamily) -> str:
    """Return the current or requested range; empty while unknown."""
    status, ipam = network.status, network.spec.ipam
    if family == "IPv4":
        return (status.ipv4_range if status is not None else "") or ipam.ipv4_range
    return (status.ipv6_range if status is not None else "") or ipam.ipv6_range


def _overlap_of(one: _Span, other: _Span, interfaces: Sequence[NetworkInterface]) -> Overlap:
    if one.position > other.position:
        one, other = other, one
    names = f"interfaces {interfaces[one.position].name} and {interfaces[other.position].name}"
    where = f"Networks {one.network} ({one.range}) and {other.network} ({other.range}), which overlap"
    message = f"The {names} are on {where}: an instance could reach and answer their addresses on one of them only."
    change = f"Attach {interfaces[other.position].name} to a Network that overlaps none of the others."
    return Overlap(other.position, Refusal(reasons.NETWORK_RANGES_OVERLAP, message, rule="network", change=change))
