"""Networks that cannot meet on one instance: those that have addresses in common.

Packets go by their destination. Of an address that is in the ranges of two networks an instance reaches the one in one
of them only; it could neither call nor answer the other, although names resolve to it. The more specific route does not
help: subnets of the wider network may lie within the narrower one, if not today then with its next city. So such
interfaces are never attached together. Ranges never change, so what may be attached stays so.
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
    """An interface, by its place among the others, that cannot be beside one before it; and why."""

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
    """Two interfaces of one instance that have addresses in common, if there are any.

    `network` finds a Network by namespace/name; what is not there or has no range yet overlaps nothing.
    """
    if len(interfaces) < 2:
        return None
    before: _Span | None = None
    for span in sorted(_spans(namespace, interfaces, network)):
        if before is not None and span.version == before.version and span.first <= before.last:
            return _told(before, span, interfaces)
        before = span
    return None


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
            except ValueError:  # none yet; or a server that does not know our rules has stored any text
                continue
            first, last = int(whole.network_address), int(whole.broadcast_address)
            yield _Span(whole.version, first, last, position, key, str(whole))


def _range(network: Network, family: IPFamily) -> str:
    """What it has, or will have; empty while that is not known."""
    status, ipam = network.status, network.spec.ipam
    if family == "IPv4":
        return (status.ipv4_range if status is not None else "") or ipam.ipv4_range
    return (status.ipv6_range if status is not None else "") or ipam.ipv6_range


def _told(one: _Span, other: _Span, interfaces: Sequence[NetworkInterface]) -> Overlap:
    if one.position > other.position:
        one, other = other, one
    names = f"interfaces {interfaces[one.position].name} and {interfaces[other.position].name}"
    where = f"Networks {one.network} ({one.range}) and {other.network} ({other.range}), which overlap"
    if one.network == other.network:
        where = f"Network {one.network} ({one.range}) both"
    message = f"The {names} are on {where}: an instance could reach and answer their addresses on one of them only."
    change = (
        f"Attach {interfaces[other.position].name} to a Network whose range has no address in common with the others."
    )
    return Overlap(other.position, Refusal(reasons.NETWORK_RANGES_OVERLAP, message, rule="network", change=change))
