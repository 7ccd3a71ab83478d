"""Routes from the node's namespace into networks: its ports, and the cluster addresses that it uses inside.

A cluster address is a route to the router namespace of a network, where the network's rules choose the backend. A port
is translated twice, here to a port of the router and there to the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import chain
from typing import Final

from tarmac.datapath.interface import HostPort, NetworkState
from tarmac.datapath.linux import conntrack, routing
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.tables.inward import Door, inward
from tarmac.decide.reach.marks import NODES, UPLINKS, node_marks

_RESERVED: Final = ("169.254.0.0/16", UPLINKS[1], *NODES)
_UPLINKS: Final = tuple(ip_network(each) for each in UPLINKS)


@dataclass(frozen=True, slots=True)
class Uplink:
    """The node's link to a router namespace, and the index and addresses of the other end."""

    index: int
    inside: int
    four: str
    six: str

    def address(self, like: str) -> str:
        """Return the other end's address of the same family as `like`."""
        return self.six if ":" in like else self.four


def door_numbers(ports: Sequence[HostPort]) -> dict[HostPort, int]:
    """Return the router's port for each host port: the same number, or a spare one if several node addresses use it."""
    wanted = {(*_sort(port), port.port) for port in ports}
    found: dict[HostPort, int] = {}
    used: set[tuple[str, bool, int]] = set()
    spare: dict[tuple[str, bool], Iterator[int]] = {}  # by sort: unused numbers, each considered once
    for port in sorted(ports):
        sort, number = _sort(port), port.port
        if (*sort, number) in used:
            number = next(spare.setdefault(sort, _spare(sort, wanted)), 0)
        if number:
            used.add((*sort, number))
            found[port] = number
    return found


def _spare(sort: tuple[str, bool], wanted: Set[tuple[str, bool, int]]) -> Iterator[int]:
    return (number for number in range(65535, 0, -1) if (*sort, number) not in wanted)


def _is_on_an_uplink(gateway: str) -> bool:
    return bool(gateway) and any(ip_address(gateway) in each for each in _UPLINKS)


def _sort(port: HostPort) -> tuple[str, bool]:
    return port.protocol, ":" in port.backend[0]


class InwardRoutes:
    """Routes into networks, of the namespace that the thread is in at creation."""

    def __init__(self, table: str, uplinks: str, netlink: Netlink, nftables: Nftables) -> None:
        self._table = table
        self._uplinks = uplinks
        self._netlink = netlink
        self._nftables = nftables
        self._conntrack = Netlink(NETFILTER)
        self._made: tuple[object, ...] | None = None
        self._doors: Mapping[HostPort, Door] = {}

    def ensure(self, networks: Mapping[Uplink, NetworkState], node_address: str, *, verify: bool) -> None:
        """Route exactly the traffic that these networks request."""
        doors = {
            port: (uplink.address(port.backend[0]), number)
            for uplink, each in networks.items()
            for port, number in door_numbers(each.host_ports).items()
        }
        foreign = (*_RESERVED, *chain.from_iterable(each.ranges for each in networks.values()))
        routes = {
            Route(routing.host_prefix(address), uplink.index, uplink.address(address))
            for uplink, each in networks.items()
            for address in each.from_node
        }
        wanted = doors, foreign, routes, node_address
        if self._made == wanted and not verify:
            return
        self._made = None  # unknown if this fails halfway
        self._ensure_routes(routes)
        table = inward(self._table, self._uplinks, doors, foreign, node_marks(node_address))
        self._nftables.ensure([table], verify=verify)
        # After the rules: a datagram in between would create the old entry again.
        self._forget(doors)
        self._made = wanted

    def remove(self) -> None:
        """Remove everything."""
        self._ensure_routes(set())
        self._nftables.remove("inet", self._table)

    def close(self) -> None:
        """Close the socket."""
        self._conntrack.close()

    def _ensure_routes(self, wanted: set[Route]) -> None:
        # Hosts of `tarmac up` have a default route with the datapath's protocol: only gateways on uplinks are ours.
        present = {each for each in routing.routes(self._netlink) if _is_on_an_uplink(each.gateway)}
        kept = {route.prefix for route in wanted}
        self._netlink.request([routing.route(each) for each in sorted(wanted - present)])
        # Deleting a replaced route would delete its replacement.
        stale: Sequence[Route] = [each for each in present - wanted if each.prefix not in kept]
        self._netlink.request([routing.no_route(each) for each in stale])

    def _forget(self, doors: Mapping[HostPort, Door]) -> None:
        """Delete UDP connections of changed ports: later datagrams would still go to the target of the first one."""
        changed = set(self._doors.items()) ^ set(doors.items())
        numbers = {n for port, (_, number) in changed if port.protocol == "UDP" for n in (port.port, number)}
        if numbers:
            conntrack.forget(self._conntrack, lambda each: each.protocol == "UDP" and each.port in numbers)
        self._doors = doors
