"""Routers and clients outside, near each city of one machine: network namespaces beside the outside segment.

    near-dfw      near-sea      near-lhr
       │             │             │
    router-dfw ── router-sea ── router-lhr     in a row, so that each hop is distance
       │             │             │
    ───┴── segment ──┴─────────────┴─── nodes

Nodes route all clients through the router of their own city. Everything is created anew at each start: addresses
follow the segment, which may be another one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tarmac.datapath.hosts.outside import BRIDGE, INTERFACE, BadSegment, Segment, city_addresses, outside_namespace
from tarmac.datapath.hosts.plan import CityHost, HostUnderlay
from tarmac.datapath.hosts.wiring import index_of, member
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import STATIC, Route

CLIENTS: Final = (IPv4Network("198.51.100.0/24"), IPv6Network("2001:db8:2::/48"))
"""Ranges of the clients' and routers' own links, reserved for documentation."""

_MAX_CITIES: Final = 30  # addresses of routers are above those of examples
_FIRST_ASN: Final = 65001
_ROUTER, _ROUTER6 = 225, 0xFE00  # ascending: of two equal ways BGP takes the router with the lower one
_ROWS, _ROWS6 = 128, 0x100  # where links between routers begin
_MTU: Final = 1500
_QUIET: Final = {
    # Before any address: with duplicate detection, IPv6 addresses could not be used for a second.
    "ipv6/conf/all/accept_dad": "0",
    "ipv6/conf/default/accept_dad": "0",
    "ipv6/conf/default/accept_ra": "0",
}
_ROUTING: Final = {
    **_QUIET,
    "ipv4/ip_forward": "1",
    "ipv6/conf/all/forwarding": "1",
    # Another city may answer the clients of this one, over another link.
    "ipv4/conf/all/rp_filter": "0",
    "ipv4/conf/default/rp_filter": "0",
}


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """The surroundings of a city: a router with its addresses on the segment, and a client behind it."""

    city: CityHost
    run: Path
    number: int  # position in the row
    segment: Segment
    node: tuple[str, ...]  # addresses of the city's node on the segment

    @property
    def router(self) -> Path:
        """The router's namespace."""
        return self.run / f"router-{self.city.name}"

    @property
    def client(self) -> Path:
        """The client's namespace."""
        return self.run / f"near-{self.city.name}"

    @property
    def asn(self) -> int:
        """The router's autonomous system."""
        return _FIRST_ASN + self.number

    @property
    def addresses(self) -> tuple[str, ...]:
        """The router's addresses on the segment, one of each family."""
        places = {4: _ROUTER + self.number, 6: _ROUTER6 + self.number}
        return tuple(str(subnet[places[subnet.version]]) for subnet in self.segment.subnets)

    @property
    def links(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The subnets between router and client."""
        return tuple(_subnet(family, self.number) for family in self.families)

    @property
    def row(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The subnets between this router and the next one."""
        places = {4: _ROWS // 4 + self.number, 6: _ROWS6 + self.number}
        return tuple(_subnet(family, places[family]) for family in self.families)

    @property
    def families(self) -> tuple[int, ...]:
        """The families of the segment."""
        return tuple(subnet.version for subnet in self.segment.subnets)


def neighborhoods(underlay: HostUnderlay, segment: Segment, names: Sequence[str]) -> list[Neighborhood]:
    """Return the surroundings of cities; distances follow the order of their names here. Raises BadSegment."""
    if len(names) > _MAX_CITIES:
        raise BadSegment(f"there are {len(names)} cities, and at most {_MAX_CITIES} have a router outside")
    for subnet in segment.subnets:
        if any(own.version == subnet.version and own.overlaps(subnet) for own in CLIENTS):
            raise BadSegment(f"{subnet} is where clients outside are ({', '.join(map(str, CLIENTS))})")
    cities, nodes = {city.name: city for city in underlay.cities}, city_addresses(underlay, segment)
    return [Neighborhood(cities[name], underlay.run, number, segment, nodes[name]) for number, name in enumerate(names)]


def build_nearby(underlay: HostUnderlay, places: Sequence[Neighborhood]) -> None:
    """Create routers and clients, and the routes of nodes to them. Raises OSError."""
    remove_nearby(underlay)
    for each in places:
        for path, controls in ((each.router, _ROUTING), (each.client, _QUIET)):
            namespaces.create(path)
            with _within(path) as netlink:
                namespaces.set_controls(controls)
                netlink.request([links.setting(index_of(netlink, "lo"))])
        _attach(underlay, each)
        _connect(_End(each.router, "near", _hosts(each.links, 1)), _End(each.client, "eth0", _hosts(each.links, 2)))
        _route(each.client, "eth0", ("0.0.0.0/0", "::/0"), [str(own[1]) for own in each.links])
        _route(each.city.namespace, INTERFACE, map(str, CLIENTS), each.addresses)
    for one, other in pairwise(places):
        _connect(_End(one.router, "following", _hosts(one.row, 1)), _End(other.router, "preceding", _hosts(one.row, 2)))


def remove_nearby(underlay: HostUnderlay) -> None:
    """Remove all routers and clients, also those of cities that are gone."""
    for path in sorted([*underlay.run.glob("router-*"), *underlay.run.glob("near-*")]):
        if namespaces.exists(path):
            with _within(path) as netlink:
                # A process in it keeps the namespace, but its links would keep their names on the segment.
                netlink.request([links.deletion(each.index) for each in links.links(netlink) if each.kind == "veth"])
        namespaces.remove(path)
    for city in underlay.cities:
        if namespaces.exists(city.namespace):
            with _within(city.namespace) as netlink:
                stale = [each for each in routing.routes(netlink, protocol=STATIC) if _is_of_clients(each)]
                netlink.request([routing.no_route(each) for each in stale])


class _End(NamedTuple):
    """One end of a pair of links, with its addresses."""

    namespace: Path
    link: str
    addresses: tuple[str, ...] = ()  # with prefix lengths

    @property
    def mac(self) -> str:
        return "02:" + hashlib.sha256(f"{self.namespace}/{self.link}".encode()).digest()[:5].hex(":")


def _attach(underlay: HostUnderlay, place: Neighborhood) -> None:
    """Connect a router to the segment."""
    outside = outside_namespace(underlay)
    port = f"r{hashlib.sha256(place.city.name.encode()).hexdigest()[:8]}"
    own = zip(place.addresses, place.segment.subnets, strict=True)
    _connect(
        _End(place.router, "lan", tuple(f"{value}/{subnet.prefixlen}" for value, subnet in own)), _End(outside, port)
    )
    with _within(outside) as netlink:
        netlink.request([member(index_of(netlink, port), index_of(netlink, BRIDGE))])


def _connect(one: _End, other: _End) -> None:
    with ExitStack() as stack:
        here, there = (stack.enter_context(_within(end.namespace)) for end in (one, other))
        place = os.open(other.namespace, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, place)
        here.request([links.veth(one.link, one.mac, _MTU, other.link, other.mac, place)])
        for netlink, end in ((here, one), (there, other)):
            index = index_of(netlink, end.link)
            pairs = (each.partition("/") for each in end.addresses)
            own = [routing.address(index, value, int(length)) for value, _, length in pairs]
            netlink.request([links.setting(index), *own])


def _route(namespace: Path, link: str, prefixes: Iterable[str], gateways: Iterable[str]) -> None:
    """Route prefixes, one of each family, through gateways of the same families."""
    with _within(namespace) as netlink:
        index = index_of(netlink, link)
        # The agent of a city removes routes of the datapath that it does not know.
        wanted = [Route(*each, protocol=STATIC) for each in _ways(index, prefixes, gateways)]
        netlink.request([routing.route(each) for each in wanted])


def _ways(index: int, prefixes: Iterable[str], gateways: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    # The second family may be missing.
    return ((prefix, index, gateway) for prefix, gateway in zip(prefixes, gateways, strict=False))


def _is_of_clients(route: Route) -> bool:
    return route.prefix in map(str, CLIENTS)


def _hosts(subnets: Iterable[IPv4Network | IPv6Network], number: int) -> tuple[str, ...]:
    return tuple(f"{subnet[number]}/{subnet.prefixlen}" for subnet in subnets)


def _subnet(family: int, number: int) -> IPv4Network | IPv6Network:
    """Return a subnet of the clients' range: four addresses, or a /64."""
    four, six = CLIENTS
    if family == 4:
        return IPv4Network((int(four.network_address) + 4 * number, 30))
    return IPv6Network((int(six.network_address) + (number << 64), 64))


@contextmanager
def _within(path: Path) -> Generator[Netlink]:
    """Enter a namespace for the block, with a socket of it."""
    with namespaces.inside(path):
        netlink = Netlink()
        try:
            yield netlink
        finally:
            netlink.close()
