"""The outside of cities on one machine: a segment with a link to every city, and with servers that are no nodes.

It is a namespace of its own with a bridge, which has the server's addresses itself. Each city's link is called
`outside0`; the egress namespace of a gateway adds its own link on it. Idempotent, as the hosts are.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final

from tarmac.datapath.hosts.plan import BENCHMARKING, CityHost, HostUnderlay
from tarmac.datapath.hosts.wiring import bridge, index_of, member
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.netlink import Netlink

INTERFACE: Final = "outside0"
BRIDGE: Final = "lan"
_MTU: Final = 1500

_USUAL: Final = "192.168.122.0/24,fd00:122::/64"
_FIRST_CITY, _SERVER, _SERVER6 = 2, 139, 0x139
_MAX_PREFIX_LENGTH: Final = {4: 24, 6: 112}


# Addresses of the outside of cities on one machine: pure.


class BadSegment(ValueError):
    """An invalid segment. The message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The outside. The second subnet may be missing."""

    subnets: tuple[IPv4Network] | tuple[IPv4Network, IPv6Network]

    @property
    def servers(self) -> tuple[str, ...]:
        """The server's addresses."""
        return tuple(str(subnet[_SERVER6 if subnet.version == 6 else _SERVER]) for subnet in self.subnets)

    def of_city(self, number: int) -> tuple[str, ...]:
        """Return the addresses of a city's link."""
        return tuple(str(subnet[_FIRST_CITY + number]) for subnet in self.subnets)


def read_segment(text: str) -> Segment:
    """Parse `CIDR` or `CIDR,CIDR6`. Raises BadSegment."""
    try:
        parsed = [ip_network(each) for each in text.split(",")]
    except ValueError as error:
        raise BadSegment(f"{text}: {error}; write CIDR or CIDR,CIDR6, such as {_USUAL}") from error
    match parsed:
        case [IPv4Network() as four]:
            made = Segment((four,))
        case [IPv4Network() as four, IPv6Network() as six]:
            made = Segment((four, six))
        case _:
            raise BadSegment(f"{text}: write a subnet of IPv4, or one of IPv4 and one of IPv6, such as {_USUAL}")
    for subnet in made.subnets:
        if subnet.prefixlen > _MAX_PREFIX_LENGTH[subnet.version]:
            raise BadSegment(f"{subnet} is too small: /{_MAX_PREFIX_LENGTH[subnet.version]} is the smallest")
    if made.subnets[0].overlaps(BENCHMARKING):
        raise BadSegment(f"{made.subnets[0]} is where the cities themselves are ({BENCHMARKING})")
    return made


def outside_namespace(underlay: HostUnderlay) -> Path:
    """Return the path of the outside's namespace."""
    return underlay.run / "outside"


def city_addresses(underlay: HostUnderlay, segment: Segment) -> dict[str, tuple[str, ...]]:
    """Return the addresses of every city's link."""
    names = sorted(city.name for city in underlay.cities)
    return {name: segment.of_city(number) for number, name in enumerate(names)}


def build_outside(underlay: HostUnderlay, segment: Segment) -> None:
    """Create it. Raises OSError."""
    path = outside_namespace(underlay)
    namespaces.create(path)
    with namespaces.inside(path):
        # Before any address: with duplicate detection, IPv6 addresses could not be used for a second.
        namespaces.set_controls({"ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_dad": "0"})
        there = Netlink()
    try:
        there.request([bridge(BRIDGE, _MTU)])
        lan, loopback = index_of(there, BRIDGE), index_of(there, "lo")
        own = [
            routing.address(lan, server, subnet.prefixlen)
            for server, subnet in zip(segment.servers, segment.subnets, strict=True)
        ]
        there.request([links.setting(loopback), links.setting(lan), *own])
        for city in underlay.cities:
            _plug(there, lan, path, segment, city_addresses(underlay, segment)[city.name], city)
    finally:
        there.close()


def remove_outside(underlay: HostUnderlay) -> None:
    """Remove it. Links that gateways added on the cities' links go with them."""
    if not outside_namespace(underlay).exists():
        return
    for city in underlay.cities:
        if namespaces.exists(city.namespace):
            with namespaces.inside(city.namespace):
                netlink = Netlink()
            try:
                found = links.link(netlink, INTERFACE)
                netlink.request([links.deletion(found.index)] if found is not None else [])
            finally:
                netlink.close()
    namespaces.remove(outside_namespace(underlay))


def _plug(there: Netlink, lan: int, path: Path, segment: Segment, wanted: tuple[str, ...], city: CityHost) -> None:
    port = f"c{hashlib.sha256(city.name.encode()).hexdigest()[:8]}"
    with namespaces.inside(city.namespace):
        namespaces.set_controls({"ipv6/conf/default/accept_ra": "0"})
        netlink = Netlink()
    try:
        if links.link(netlink, INTERFACE) is None:
            peer = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                netlink.request([links.veth(INTERFACE, _mac(city, 0), _MTU, port, _mac(city, 1), peer)])
            finally:
                os.close(peer)
        there.request([member(index_of(there, port), lan)])
        outside = index_of(netlink, INTERFACE)
        known = {each.partition("/")[0] for each in routing.prefixed_addresses(netlink).get(outside, ())}
        # Another segment may have been configured before: with addresses of both, answers could leave from the old one.
        netlink.request([routing.no_address(outside, each) for each in sorted(known - set(wanted))])
        own = [
            routing.address(outside, address, subnet.prefixlen)
            for address, subnet in zip(wanted, segment.subnets, strict=True)
        ]
        netlink.request([links.setting(outside), *own])
    finally:
        netlink.close()


def _mac(city: CityHost, end: int) -> str:
    return "02:" + hashlib.sha256(f"{city.link}/outside/{end}".encode()).digest()[:5].hex(":")
