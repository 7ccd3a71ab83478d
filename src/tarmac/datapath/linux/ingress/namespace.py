"""The ingress namespace: where connections to public addresses are given to nodes and to Networks.

It has its links, routes and rules, and no process. It knows neither pods nor their addresses.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tarmac.api.networking.ports import INGRESS_PORT
from tarmac.base.clock import SystemClock
from tarmac.datapath.egress import SourceAddress
from tarmac.datapath.ingress import MAX_NODES, IngressAddress, IngressState
from tarmac.datapath.interface import Remote
from tarmac.datapath.linux import conntrack, links, namespaces, routing
from tarmac.datapath.linux.conntrack import TrackedConnection
from tarmac.datapath.linux.egress.carrying import AddressCarrier, OwnableAddress
from tarmac.datapath.linux.egress.namespace import CONTROLS
from tarmac.datapath.linux.egress.outside import ensure_outside, ensure_virtual, outside_routes
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.ingress.numbering import (
    FIRST_LEG,
    LOCAL_PRIORITY,
    MAX_LEGS,
    TUNNEL_TABLE,
    exit_table,
    known_legs,
    numbered,
    rules,
)
from tarmac.datapath.linux.naming import (
    EGRESS_HOP,
    EGRESS_MAC,
    INGRESS,
    INGRESS_LEG_PREFIX,
    OUTSIDE_PREFIX,
    ROUTER_HOP,
    ROUTER_MAC,
    ingress_leg_name,
    outside_mac,
    tunnel_mac,
    virtual_mac,
)
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.policyrouting import ensure_rules, place_local
from tarmac.datapath.linux.routing import MAIN, Route
from tarmac.datapath.linux.ruleset import Ruleset
from tarmac.datapath.linux.tables.gateway import GUARD, GUARD_TABLE, RESOLUTION_TABLE
from tarmac.datapath.linux.tables.ingress import (
    EXIT,
    KIND,
    LEG,
    NAME,
    NODE,
    NUMBER,
    SELF,
    VIRTUAL,
    IngressTables,
    ServedAddress,
    ServedPort,
    entering,
)
from tarmac.datapath.linux.tables.ingressadmission import INGRESS_VNI
from tarmac.datapath.linux.tables.text import FAMILIES
from tarmac.datapath.linux.tunnel import ensure_ends, ensure_tunnel
from tarmac.decide.ingress.slots import slots
from tarmac.decide.reach.marks import node_marks

_LOOPBACK: Final = 1
_HOP: Final = EGRESS_HOP
"""The next hop of the tunnel. Its hardware address is replaced by that of the chosen node."""
_CONTROLS: Final = {
    **CONTROLS,
    # Answers have an address of the namespace's own link as source.
    **{f"ipv4/conf/{name}/accept_local": "1" for name in ("all", "default")},
}


@dataclass(frozen=True, slots=True)
class _Exit:
    mark: int
    place: OwnableAddress


class IngressNamespace:
    """The namespace at this path, created on demand. Used from the datapath's thread, except for its carrier."""

    def __init__(self, path: Path, host: Host) -> None:
        self._path, self._host = path, host
        namespaces.create(path)
        with namespaces.inside(path):
            namespaces.set_controls(_CONTROLS)
            self._netlink, self._conntrack, self.ruleset = Netlink(), Netlink(NETFILTER), Ruleset()
            self.carrier = AddressCarrier(path, self.ruleset, SystemClock(), NAME)
        try:
            if not self.ruleset.listing(f"inet {GUARD} live4"):
                # Before any link: the kernel itself sends packets as soon as one is up.
                self.ruleset.ensure([RESOLUTION_TABLE, GUARD_TABLE])
            place_local(self._netlink, LOCAL_PRIORITY)
            self._numbers = {
                address: int(number)
                for family in FAMILIES
                for number, address in _swapped(self.ruleset.elements("inet", NAME, f"numbers{family}"))
            }
            marks = self.ruleset.elements("netdev", NAME, "macs")
            self._nodes = {mac: int(mark) & NUMBER for mark, mac in marks if int(mark) & KIND == NODE}
        except BaseException:
            self.close()
            raise
        self._tunnel_index = 0
        self._served: dict[str, tuple[_Basis, ServedAddress]] = {}
        self._tables: IngressTables | None = None

    def connect(self, router: Path, mtu: int) -> None:
        """Create the link to a router namespace. An existing link is kept."""
        name = ingress_leg_name(router.name)
        if links.link(self._netlink, name) is None:
            there = os.open(router, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._netlink.request([links.veth(name, EGRESS_MAC, mtu, INGRESS, ROUTER_MAC, there)])
            finally:
                os.close(there)
        leg = links.link(self._netlink, name)
        if leg is None:
            raise OSError(f"the link {name} has vanished")
        self._netlink.request([links.setting(leg.index, mtu=mtu), routing.neighbour(leg.index, ROUTER_HOP, ROUTER_MAC)])

    def settle(self, router: Path) -> None:
        """Begin to send on the link to a router namespace, once its other end is up."""
        links.settle(self._netlink, ingress_leg_name(router.name))

    def keep_only(self, legs: Iterable[str]) -> None:
        """Remove the unused links to router namespaces."""
        kept = set(legs)
        unused = [
            each
            for each in links.links(self._netlink)
            if each.name.startswith(INGRESS_LEG_PREFIX) and each.name not in kept
        ]
        self._netlink.request([links.deletion(each.index) for each in unused])

    def ensure(self, state: IngressState, legs: Mapping[str, str], mtu: int) -> dict[str, Exception]:
        """Make links, routes and rules match; return failures by address.

        `legs` has a link's name by Network, `mtu` is the size of the tunnel.
        """
        own, failures = state.node_address, dict[str, Exception]()
        self._netlink.request([links.setting(_LOOPBACK)])
        self._host.lead_to_ingress(self._path, self._netlink, state.ranges)
        nodes = numbered((tunnel_mac(INGRESS_VNI, each) for each in state.peers if each != own), self._nodes, MAX_NODES)
        tunnel = self._tunnel(state, mtu)
        numbers = numbered(legs.values(), known_legs(self._netlink), MAX_LEGS - 1)
        self._numbers = numbered((each.address for each in state.addresses), self._numbers, VIRTUAL - 1)
        exits = self._exits(state, failures)
        marks = {each.mark for each in exits.values()}
        self._ensure_routes(tunnel, numbers, exits, state)
        # After the routes: a rule that selects an empty table would let packets fall through to the next one.
        ensure_rules(self._netlink, rules(numbers.values(), marks))
        marked = {network: LEG | numbers[leg] for network, leg in legs.items() if leg in numbers}
        tables = IngressTables(
            own,
            node_marks(own),
            self._all_served(state, nodes, marked, exits),
            {number: mac for mac, number in nodes.items()},
            {mark: state.networks.get(network, ()) for network, mark in marked.items()},
        )
        self._nodes = nodes
        self.carrier.serve(
            own, {}, {address: each.place for address, each in exits.items()}, {}
        )  # the owner's address and routes exist by now
        self._allow(tables, anew=tunnel.index != self._tunnel_index and self._tables is not None)
        self._tunnel_index = tunnel.index
        return failures

    def mend(self) -> bool:
        """Repair external changes. Return True if there were any."""
        drifted = self._tables is not None and self.ruleset.drifted()
        if drifted and self._tables is not None:
            self._allow(self._tables, anew=True)
        return drifted

    def close(self) -> None:
        """Close sockets; the namespace stays as it is."""
        self.carrier.close()
        self._netlink.close()
        self._conntrack.close()
        self.ruleset.close()

    def remove(self) -> None:
        """Remove the namespace with its content."""
        # The links go first: the namespace may live on for a moment, and with it an address on the wire.
        try:
            named = [each for each in links.links(self._netlink) if each.index != _LOOPBACK]
            self._netlink.request([links.deletion(each.index) for each in named])
        finally:
            self.close()
        namespaces.remove(self._path)

    def _allow(self, tables: IngressTables, *, anew: bool) -> None:
        before = self._tables
        # A renewal by the lease thread between reading and replacing the tables would be lost.
        with self.ruleset.lock:
            self._tables = None  # unknown if this fails halfway
            self.ruleset.ensure(entering(tables), self.carrier.restored, anew=anew)
            # After the tables: which addresses are live is read from the new ones.
            self.carrier.tidy()
        self._tables = tables
        # Only after a change: reading the table takes the kernel ten milliseconds and more.
        if before != tables:
            conntrack.forget(self._conntrack, _misled(tables))

    def _tunnel(self, state: IngressState, mtu: int) -> links.Link:
        own = state.node_address
        made = ensure_tunnel(self._host, self._path, self._netlink, INGRESS_VNI, mtu, own, INGRESS_PORT)
        assert made is not None, "it has a number"
        peers = [Remote(node, ()) for node in state.peers if node != own]
        ensure_ends(self._netlink, made, INGRESS_VNI, peers, {_HOP: EGRESS_MAC})
        return made

    def _exits(self, state: IngressState, failures: dict[str, Exception]) -> dict[str, _Exit]:
        """Create the links outside; return them by address. One that cannot be created fails only its addresses."""
        found: dict[str, _Exit] = {}
        shared: dict[str, links.Link] = {}
        names = sorted(
            {each.outside.interface for each in state.addresses if each.outside and not each.outside.virtual}
        )
        for each in state.addresses:
            number = self._numbers.get(each.address)
            if each.outside is None or number is None:
                continue
            source, interface = SourceAddress(each.address, number, (), each.outside), each.outside.interface
            try:
                if each.outside.virtual:
                    link = ensure_virtual(self._host, self._path, self._netlink, interface, each.address)
                    mark = EXIT | VIRTUAL | number
                    # Its routes are not created here: they come and go with the address.
                    ways = tuple(sorted(outside_routes(each.outside, link.index, exit_table(mark))))
                    place = OwnableAddress(source, link.name, link.index, 0, virtual_mac(each.address), ways)
                else:
                    if interface not in shared:
                        own = self._host, self._path, self._netlink, _hardware(state)
                        shared[interface] = ensure_outside(*own, interface)
                    link = shared[interface]
                    mark = EXIT | names.index(interface) + 1
                    place = OwnableAddress(source, link.name, link.index, 0, outside_mac(_hardware(state), interface))
            except OSError as failure:
                failures[each.address] = failure
            else:
                found[each.address] = _Exit(mark, place)
        kept = {each.place.link for each in found.values()}
        named = (each for each in links.links(self._netlink) if each.name.startswith(OUTSIDE_PREFIX))
        self._netlink.request([links.deletion(each.index) for each in named if each.name not in kept])
        return found

    def _ensure_routes(
        self, tunnel: links.Link, numbers: Mapping[str, int], exits: Mapping[str, _Exit], state: IngressState
    ) -> None:
        indexes = {each.name: each.index for each in links.links(self._netlink)}
        wanted = {Route(each, tunnel.index, _HOP, TUNNEL_TABLE) for each in ("0.0.0.0/0", "::/0")}
        wanted |= {
            Route(each, indexes[leg], ROUTER_HOP, FIRST_LEG + number)
            for leg, number in numbers.items()
            for each in ("0.0.0.0/0", "::/0")
        }
        for each in state.addresses:
            way = exits.get(each.address)
            if way is not None and each.outside is not None and not each.outside.virtual:
                wanted |= outside_routes(each.outside, way.place.index, exit_table(way.mark))
        ours = range(FIRST_LEG, exit_table(EXIT | VIRTUAL))
        present = set(routing.routes(self._netlink, (MAIN, TUNNEL_TABLE, *ours)))
        replaced = {(route.prefix, route.table) for route in wanted}
        self._netlink.request([routing.route(each) for each in sorted(wanted - present)])
        # Deleting a replaced route would delete its replacement. Those of the main table are the node's link's.
        unwanted: Sequence[Route] = [
            each for each in present - wanted if each.table != MAIN and (each.prefix, each.table) not in replaced
        ]
        self._netlink.request([routing.no_route(each) for each in unwanted])

    def _all_served(
        self, state: IngressState, nodes: Mapping[str, int], legs: Mapping[str, int], exits: Mapping[str, _Exit]
    ) -> list[ServedAddress]:
        """Return the addresses as the kernel needs them. What has not changed is taken from the last pass."""
        marks = {node: NODE | nodes[mac] for node in state.peers if (mac := tunnel_mac(INGRESS_VNI, node)) in nodes}
        marks[state.node_address] = SELF
        before, self._served = self._served, {}
        for each in state.addresses:
            if (number := self._numbers.get(each.address)) is None:
                continue
            way = exits.get(each.address)
            known = {node: marks[node] for port in each.ports for node, _ in port.nodes if node in marks}
            here = {
                backend.network: legs[backend.network]
                for port in each.ports
                for backend in port.backends
                if backend.network in legs
            }
            basis = each, number, way.mark if way else 0, known, here
            kept = before.get(each.address)
            self._served[each.address] = kept if kept and kept[0] == basis else (basis, _served(*basis))
        return [served for _, served in self._served.values()]


_Basis = tuple[IngressAddress, int, int, Mapping[str, int], Mapping[str, int]]
"""An address with its number, the mark of its link outside, and the marks of its nodes and of its Networks here."""


def _served(
    each: IngressAddress, number: int, exit_mark: int, known: Mapping[str, int], legs: Mapping[str, int]
) -> ServedAddress:
    ports: list[ServedPort] = []
    for port in each.ports:
        weights = {node: weight for node, weight in port.nodes if node in known}
        here = sorted(legs[backend.network] for backend in port.backends if backend.network in legs)
        nodes = tuple(known[node] for node in slots(weights))
        ports.append(ServedPort(port.protocol, port.port, nodes, tuple(here), port.clients, port.affinity))
    return ServedAddress(each.address, number, exit_mark, tuple(ports), each.new_per_second, each.connections)


def _hardware(state: IngressState) -> str:
    """Return the seed of the hardware addresses of own links: others than those of the egress namespace."""
    return f"ingress\0{state.node_address}"


def _swapped(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    return ((value, key) for key, value in pairs)


def _misled(tables: IngressTables):
    """Return the predicate for datagrams to a node or Network that serves them no more."""
    allowed = {(each.address, port.protocol, port.port): port for each in tables.addresses for port in each.ports}

    def misled(found: TrackedConnection) -> bool:
        chosen = found.mark & (KIND | NUMBER)
        if not chosen:
            return False
        known = allowed.get((found.meant, found.protocol, found.meant_port or 0))
        return known is None or (found.protocol == "UDP" and chosen not in known.nodes and chosen not in known.legs)

    return misled
