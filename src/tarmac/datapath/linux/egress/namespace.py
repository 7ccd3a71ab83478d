"""A node's egress namespace: the tunnel, links to the outside, legs of Networks, and the rules between them.

The only process in it is conntrackd, which shares connections with another gateway; nothing else listens in it. The
kernel holds the state: a new process adopts the namespace as it is, and its rewrites do not disturb packets.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.api.networking.names import TRANSITS
from tarmac.api.networking.ports import EXTERNAL_PORT
from tarmac.base.clock import SystemClock
from tarmac.datapath.egress import EgressState, GatewayTraffic, SourceAddress, TranslatedConnection
from tarmac.datapath.interface import Remote
from tarmac.datapath.linux import conntrack, links, namespaces, routing
from tarmac.datapath.linux.egress import fwmarks
from tarmac.datapath.linux.egress.carrying import AddressCarrier, OwnableAddress
from tarmac.datapath.linux.egress.metering import TrafficMeter
from tarmac.datapath.linux.egress.outside import DUMMY_ADDRESS, ensure_outside, ensure_virtual, outside_routes
from tarmac.datapath.linux.egress.revoking import at_gateway
from tarmac.datapath.linux.egress.shaping import Shaper
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import (
    EGRESS,
    EGRESS_MAC,
    LEG_PREFIX,
    OUTSIDE_PREFIX,
    ROUTER_HOP,
    ROUTER_MAC,
    TUNNEL,
    leg_name,
    outside_mac,
    virtual_mac,
)
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.nftables import NftablesFault
from tarmac.datapath.linux.pod import NO_REDIRECTS
from tarmac.datapath.linux.policyrouting import ensure_rules
from tarmac.datapath.linux.routing import MAIN, Route, host_prefix
from tarmac.datapath.linux.ruleset import Ruleset
from tarmac.datapath.linux.tables.admission import EXTERNAL_VNI
from tarmac.datapath.linux.tables.gateway import COUNTED, GUARD, NAME, gateway
from tarmac.datapath.linux.tunnel import ensure_ends, ensure_tunnel
from tarmac.decide.reach.marks import node_marks

_LOOPBACK: Final = 1
_IPV4: Final = {"forwarding": "1", "rp_filter": "0", "arp_ignore": "1", "send_redirects": "0", **NO_REDIRECTS}
_IPV6: Final = {"forwarding": "1", "accept_ra": "0", "accept_dad": "0", "addr_gen_mode": "1", **NO_REDIRECTS}
CONTROLS: Final = {
    f"{family}/conf/{name}/{control}": value
    for name in ("all", "default")
    for family, controls in (("ipv4", _IPV4), ("ipv6", _IPV6))
    for control, value in controls.items()
} | {
    # A new owner picks connections up in the middle; one that returns has outdated windows of them.
    "netfilter/nf_conntrack_tcp_loose": "1",
    "netfilter/nf_conntrack_tcp_be_liberal": "1",
    # The partner needs every change; by default the kernel reports only connections that began while a process
    # listened.
    "netfilter/nf_conntrack_events": "1",
    **conntrack.CONTROLS,
}


class EgressNamespace:
    """The namespace at this path, created on demand. Used from the datapath's thread, except for its carrier."""

    def __init__(self, path: Path, host: Host) -> None:
        self._path, self._host = path, host
        namespaces.create(path)
        with namespaces.inside(path):
            namespaces.set_controls(CONTROLS)
            self._netlink, self._conntrack, self.ruleset = Netlink(), Netlink(NETFILTER), Ruleset()
            self.carrier = AddressCarrier(path, self.ruleset, SystemClock())
        try:
            if not self.ruleset.listing(f"inet {GUARD} live4"):
                # Before any link: the kernel itself sends packets as soon as one is up.
                self.ruleset.ensure(gateway({}, {}, {}, ()))
        except BaseException:
            self.close()
            raise
        self._allowed: set[SourceAddress] | None = None
        self._legs: dict[str, tuple[str, int]] = {}
        self._partners: list[str] = []
        self._shaper = Shaper(path)
        self._meter = TrafficMeter()

    def connect(self, router: Path, mtu: int) -> None:
        """Create the link to a router namespace. An existing link is kept."""
        name = leg_name(router.name)
        if links.link(self._netlink, name) is None:
            there = os.open(router, os.O_RDONLY | os.O_CLOEXEC)
            try:
                self._netlink.request([links.veth(name, EGRESS_MAC, mtu, EGRESS, ROUTER_MAC, there)])
            finally:
                os.close(there)
        leg = links.link(self._netlink, name)
        if leg is None:
            raise OSError(f"the link {name} has vanished")
        self._netlink.request([links.setting(leg.index, mtu=mtu), routing.neighbour(leg.index, ROUTER_HOP, ROUTER_MAC)])

    def settle(self, router: Path) -> None:
        """Begin to send on the link to a router namespace, once its other end is up."""
        links.settle(self._netlink, leg_name(router.name))

    def keep_only(self, legs: Iterable[str]) -> None:
        """Remove the unused links to router namespaces."""
        kept = set(legs)
        stale = [each for each in links.links(self._netlink) if each.name[:1] == LEG_PREFIX and each.name not in kept]
        self._netlink.request([links.deletion(each.index) for each in stale])

    def ensure(
        self, state: EgressState, legs: Mapping[str, tuple[str, int]], encrypted: Mapping[str, int]
    ) -> dict[str, Exception]:
        """Create everything but the rules; return failures by address.

        `legs` has the leg and mark of each own transit address, `encrypted` the largest packet to each node that is
        reached encrypted.
        """
        own, failures = state.node_address, dict[str, Exception]()
        four, six = DUMMY_ADDRESS, node_marks(own)[1]
        self._netlink.request([links.setting(_LOOPBACK), *(routing.address(_LOOPBACK, each) for each in (four, six))])
        tunnel = self._tunnel(state)
        outside, virtual = self._outside(state, failures), self._virtual(state, failures)
        # Before routes are computed: a link that goes takes its routes with it.
        self._keep_only_outside({each.name for each in (*outside.values(), *virtual.values())})
        gateways = [node for each in state.sources for node in each.candidates if node != own]
        numbers = fwmarks.gateway_numbers(gateways, routing.routes(self._netlink, fwmarks.TABLES))
        wanted = fwmarks.tunnel_ways(tunnel.index, numbers) | self._routes_to_pods(state, tunnel, legs, encrypted)
        self._partners = [node_marks(state.partner)[1]] if state.partner else []
        if state.partner:
            largest = encrypted.get(state.partner, 0)
            wanted.add(Route(host_prefix(self._partners[0]), tunnel.index, fwmarks.hop(state.partner), mtu=largest))
        links_outside = fwmarks.outside_numbers(outside)
        carriable: dict[str, OwnableAddress] = {}
        for each in state.sources:
            if each.outside is not None and (link := virtual.get(each.address)) is not None:
                # Its routes are not created here: they come and go with the address.
                routes = outside_routes(each.outside, link.index, fwmarks.virtual_table(each.mark))
                mac, own_routes = virtual_mac(each.address), tuple(sorted(routes))
                carriable[each.address] = OwnableAddress(each, link.name, link.index, fwmarks.VIRTUAL, mac, own_routes)
            elif each.outside is not None and not each.outside.virtual and each.outside.interface in links_outside:
                link, number = outside[each.outside.interface], links_outside[each.outside.interface]
                wanted |= outside_routes(each.outside, link.index, fwmarks.FIRST_TABLE + number)
                mac = outside_mac(own, each.outside.interface)
                carriable[each.address] = OwnableAddress(each, link.name, link.index, number, mac)
        # Routes before rules: a rule that selects an empty table would let packets fall through to the next one.
        self._ensure_routes(wanted)
        marks = [each.source.mark for each in carriable.values() if each.virtual]
        ensure_rules(self._netlink, fwmarks.rules([*numbers.values(), *links_outside.values()], marks))
        self._legs = dict(legs)
        failures |= self._shape(carriable.values())
        # Last: from here on the lease thread may serve the addresses, and their links and routes exist.
        self.carrier.serve(own, {each.address: each.mark for each in state.sources}, carriable, numbers)
        return failures

    def allow(self, *, anew: bool = False) -> None:
        """Apply the rules of the addresses that this node may serve, and end connections that are no longer allowed."""
        carrier = self.carrier
        # A renewal by the lease thread between reading and replacing the tables would be lost.
        with self.ruleset.lock:
            sources = [each.source for each in carrier.carriable.values()]
            exits = {each.source.mark: each.number for each in carrier.carriable.values()}
            tables = gateway(self._legs, carrier.owners_by_mark(), exits, sources, self._partners)
            # Elements that are about to go lose their counters: they are read first.
            if self._meter.loses(sources):
                self._count()
            # Live addresses are in these tables: a replacement restores them in the same transaction.
            if self.ruleset.ensure(tables, self._restored, anew=anew):
                self._meter.restart()
            self._meter.know(sources)
            # After the tables: which addresses are live is read from the new ones.
            carrier.tidy()
        before, self._allowed = self._allowed, set(sources)
        if before is None or before - self._allowed:
            conntrack.forget(self._conntrack, at_gateway(sources))

    def carriage(self) -> GatewayTraffic:
        """Return all traffic through this namespace, also of deleted rules."""
        self._count()
        return self._meter.carriage(self.carrier.carried(), conntrack.tally(self._conntrack))

    def tracked(self) -> tuple[int, int]:
        """Return the number of tracked connections, and the maximum."""
        with namespaces.inside(self._path):
            count, most = (namespaces.control(f"netfilter/nf_conntrack_{each}") for each in ("count", "max"))
        return int(count or 0), int(most or 0)

    def translations(self, transits: Collection[str], most: int) -> list[TranslatedConnection]:
        """Return live connections under these transit addresses."""
        return conntrack.translations(self._conntrack, transits, most)

    def _count(self) -> None:
        for name, sort in COUNTED.items():
            with suppress(NftablesFault):  # not created yet, or deleted by another program
                self._meter.read(name, self.ruleset.counters(f"{sort} inet {NAME} {name}"))

    def _restored(self) -> str:
        """Preserve the state that a replaced table would lose: counts here, leases in the new one."""
        self._count()
        return self.carrier.restored()

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

    def _tunnel(self, state: EgressState) -> links.Link:
        own, mtu = state.node_address, self._host.mtu(0, state.node_address)
        made = ensure_tunnel(self._host, self._path, self._netlink, EXTERNAL_VNI, mtu, own, EXTERNAL_PORT)
        assert made is not None, "it has a number"
        nodes = {node for each in state.sources for node in each.candidates}
        nodes |= {way.node for each in state.sources for way in (*each.exits, *each.entrances)}
        ensure_ends(self._netlink, made, EXTERNAL_VNI, [Remote(node, ()) for node in sorted(nodes - {own})])
        return made

    def _shape(self, carriable: Collection[OwnableAddress]) -> dict[str, Exception]:
        wanted: dict[str, dict[int, int]] = {TUNNEL: {}, **{each.link: {} for each in carriable}}
        limited = [each for each in carriable if each.source.out_rate or each.source.in_rate]
        for each in limited:
            if each.source.in_rate:
                wanted[TUNNEL][each.source.mark] = each.source.in_rate
            if each.source.out_rate:
                wanted[each.link][each.source.mark] = each.source.out_rate
        try:
            self._shaper.ensure(wanted)
        except OSError as failure:
            return {each.source.address: failure for each in limited}
        return {}

    def _outside(self, state: EgressState, failures: dict[str, Exception]) -> dict[str, links.Link]:
        """Create the links to the outside, by interface of the node. A missing one fails only its own addresses."""
        made: dict[str, links.Link] = {}
        for each in state.sources:
            if each.outside is None or each.outside.virtual or each.outside.interface in made:
                continue
            try:
                interface = each.outside.interface
                made[interface] = ensure_outside(self._host, self._path, self._netlink, state.node_address, interface)
            except OSError as failure:
                failures[each.address] = failure
        return made

    def _virtual(self, state: EgressState, failures: dict[str, Exception]) -> dict[str, links.Link]:
        """Create the dedicated links, by address."""
        made: dict[str, links.Link] = {}
        for each in state.sources:
            if each.outside is not None and each.outside.virtual:
                interface = each.outside.interface
                try:
                    found = ensure_virtual(self._host, self._path, self._netlink, interface, each.address)
                except OSError as failure:
                    failures[each.address] = failure
                else:
                    made[each.address] = found
        return made

    def _keep_only_outside(self, kept: Collection[str]) -> None:
        named = (each for each in links.links(self._netlink) if each.name[:1] == OUTSIDE_PREFIX)
        self._netlink.request([links.deletion(each.index) for each in named if each.name not in kept])

    def _routes_to_pods(
        self,
        state: EgressState,
        tunnel: links.Link,
        legs: Mapping[str, tuple[str, int]],
        encrypted: Mapping[str, int],
    ) -> set[Route]:
        """Return the routes back by transit address: into a leg, or to the node of its pods."""
        indexes = {each.name: each.index for each in links.links(self._netlink)}
        found = {
            Route(host_prefix(transit), indexes[leg], ROUTER_HOP)
            for transit, (leg, _) in legs.items()
            if leg in indexes
        }
        elsewhere = ((way.transit, way.node) for each in state.sources for way in (*each.exits, *each.entrances))
        # An unknown transit address is unreachable, regardless of routes behind the main table.
        found |= {Route(prefix) for prefix in TRANSITS}
        return found | {
            Route(host_prefix(transit), tunnel.index, fwmarks.hop(node), mtu=encrypted.get(node, 0))
            for transit, node in elsewhere
            if node != state.node_address and transit not in legs
        }

    def _ensure_routes(self, wanted: set[Route]) -> None:
        tables = {MAIN, *fwmarks.TABLES}
        present = set(routing.routes(self._netlink, tables))
        replaced = {(route.prefix, route.table) for route in wanted}
        self._netlink.request([routing.route(each) for each in sorted(wanted - present)])
        # Deleting a replaced route would delete its replacement.
        stale: Sequence[Route] = [each for each in present - wanted if (each.prefix, each.table) not in replaced]
        self._netlink.request([routing.no_route(each) for each in stale])
