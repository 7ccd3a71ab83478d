"""Whether rules let a connection be, and the ranges they mean. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from tarmac.datapath.interface import Allowance, Ports

Network = IPv4Network | IPv6Network


def permits(allowances: Sequence[Allowance] | None, peer: str, protocol: str, port: int | None) -> bool:
    """Whether a connection with a peer passes. A protocol without ports has None."""
    return allowances is None or any(
        _peer_is_meant(allowance, peer) and _port_is_meant(allowance.ports, protocol, port) for allowance in allowances
    )


def widens(before: Sequence[Allowance] | None, after: Sequence[Allowance] | None) -> bool:
    """Whether everything that was permitted plainly still is. It may say no when it only looks so."""
    if after is None:
        return True
    return before is not None and all(any(_covers(new, old) for new in after) for old in before)


def ranges(allowance: Allowance, version: int) -> list[Network] | None:
    """The ranges of one family that an allowance means, least in number and in order; None means all."""
    if allowance.peers is None:
        return None
    meant = collapsed(allowance.peers, version)
    for hole in collapsed(allowance.excluded, version):
        meant = [part for each in meant for part in _without(each, hole)]
    return meant


def merged(ports: Iterable[Ports]) -> list[tuple[int, int]] | None:
    """Ports as disjoint ranges in order; None means all of them."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(_bounds(each) for each in ports):
        if (first, last) == (0, 65535):
            return None
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def collapsed(values: Iterable[str], version: int) -> list[Network]:
    """The ranges of one family among these, least in number and in order."""
    networks = (ip_network(each) for each in values)
    if version == 4:
        return list(collapse_addresses(each for each in networks if isinstance(each, IPv4Network)))
    return list(collapse_addresses(each for each in networks if isinstance(each, IPv6Network)))


def _covers(new: Allowance, old: Allowance) -> bool:
    peers = new.peers is None or (old.peers is not None and set(old.peers) <= set(new.peers))
    ports = new.ports is None or (old.ports is not None and set(old.ports) <= set(new.ports))
    return peers and ports and set(new.excluded) <= set(old.excluded)


def _peer_is_meant(allowance: Allowance, peer: str) -> bool:
    if allowance.peers is None:
        return True
    address = ip_address(peer)
    inside = any(address in ip_network(each) for each in allowance.peers)
    return inside and not any(address in ip_network(each) for each in allowance.excluded)


def _port_is_meant(ports: Sequence[Ports] | None, protocol: str, port: int | None) -> bool:
    if ports is None:
        return True
    return any(
        each.protocol == protocol and port is not None and _bounds(each)[0] <= port <= _bounds(each)[1]
        for each in ports
    )


def _bounds(ports: Ports) -> tuple[int, int]:
    if ports.first is None:
        return 0, 65535
    return ports.first, ports.first if ports.last is None else ports.last


def _without(whole: Network, hole: Network) -> list[Network]:
    if isinstance(whole, IPv4Network) and isinstance(hole, IPv4Network):
        return _cut(whole, hole)
    if isinstance(whole, IPv6Network) and isinstance(hole, IPv6Network):
        return _cut(whole, hole)
    return [whole]


def _cut(whole: Network, hole: Network) -> list[Network]:
    if not whole.overlaps(hole):  # pyright: ignore[reportArgumentType] both are of one family
        return [whole]
    if whole.prefixlen >= hole.prefixlen:
        return []
    return sorted(whole.address_exclude(hole))  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownArgumentType]
