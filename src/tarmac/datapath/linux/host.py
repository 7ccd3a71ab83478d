"""The node's own namespace, as far as the networks use it: forwarding, the node's ends of uplinks, the underlay.

Each router namespace has an uplink here, with its own address out of a range that has no meaning elsewhere; packets
from there are masqueraded once more behind the node. The kernel's links are the only record of the numbers in use.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final

from tarmac.api.networking.names import DIALLED, INGRESS_HOPS, INGRESS_LINK
from tarmac.datapath.ingress import OpenPort
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.inward import InwardRoutes, Uplink
from tarmac.datapath.linux.naming import (
    NODE_LINK,
    ROUTER_MAC,
    UPLINK,
    encrypted_link,
    host_table,
    ingress_link,
    uplinks_prefix,
)
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.nftables import Nftables
from tarmac.datapath.linux.pod import NO_REDIRECTS
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.tables.admission import Answerer, Sender, admission
from tarmac.datapath.linux.tables.host import host
from tarmac.datapath.linux.tables.ingressadmission import ingress_admission
from tarmac.datapath.linux.tables.nodeports import node_ports
from tarmac.datapath.linux.tables.services import services
from tarmac.decide.reach.marks import UPLINKS
from tarmac.decide.reach.policyrules import ServiceFrontend

_RANGE, _RANGE_SIX = (ip_network(each) for each in UPLINKS)
_GATEWAY: Final = str(_RANGE[1])
_GATEWAY_SIX: Final = "fe80::1"
_HOST_MAC: Final = "02:74:61:72:6d:68"
_DEFAULT_MTU: Final = 1500
_OVERHEAD: Final = {4: 50, 6: 70}
_FORWARDING: Final = {"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}


class Host:
    """The node's namespace: the one that the thread is in at creation."""

    def __init__(self, run_dir: Path) -> None:
        self._netlink = Netlink()
        self._nftables = Nftables()
        self._prefix = uplinks_prefix(str(run_dir))
        self._table = host_table(str(run_dir))
        self._encrypted = encrypted_link(str(run_dir))
        self._ingress = ingress_link(str(run_dir))
        self._before = run_dir / "controls.json"
        self._inward = InwardRoutes(f"{self._table}-inward", self._prefix, self._netlink, self._nftables)

    def prepare(self, state: NodeNetworks) -> None:
        """Enable forwarding, and keep the networks apart."""
        # Before the first change: what is not recorded now cannot be restored.
        self._remember_controls()
        # A node that learns its own routes from router advertisements must continue to do so when it forwards.
        for name in ("all", "default", *(link.name for link in links.links(self._netlink))):
            if namespaces.control(f"ipv6/conf/{name}/accept_ra") == "1":
                namespaces.set_controls({f"ipv6/conf/{name}/accept_ra": "2"})
        namespaces.set_controls({name: on for name, on in _FORWARDING.items() if namespaces.control(name) != on})
        self._nftables.ensure([host(self._table, self._prefix, UPLINKS, *tunnels_of(state))])
        # Unreachable: packets to dialled addresses must never leave by the default route.
        self._netlink.request([routing.route(Route(each)) for each in DIALLED])

    def offer(self, ports: Sequence[ServiceFrontend]) -> None:
        """Translate the node's own connections to services outside all networks."""
        self._nftables.ensure([services(ports, name=f"{self._table}-services")])

    def lead(self, networks: Mapping[Uplink, NetworkState], node_address: str, *, verify: bool) -> None:
        """Route the node's ports, and its own connections to services inside, into networks that exist by now."""
        self._inward.ensure(networks, node_address, verify=verify)

    def mtu(self, wanted: int, node_address: str) -> int:
        """Return the largest packet of a network that fits, tunnelled, between nodes."""
        fits = self.underlay(node_address) - _OVERHEAD[ip_address(node_address).version]
        return min(wanted, fits) if wanted else fits

    def interfaces(self, *, connected: bool = False) -> dict[str, Sequence[str]]:
        """Return the node's own interfaces and their addresses with prefix lengths.

        Interfaces that the datapath created are omitted. One without a carrier keeps its addresses, or some of them.
        """
        addresses = routing.prefixed_addresses(self._netlink)
        made = (self._prefix, self._encrypted, self._ingress)
        own = (each for each in links.links(self._netlink) if not each.name.startswith(made))
        fit = (each for each in own if not connected or (each.up and each.carrier))
        return {each.name: sorted(addresses[each.index]) for each in fit if each.index in addresses}

    def underlay(self, node_address: str) -> int:
        """Return the largest packet between nodes."""
        index = routing.holder(self._netlink, node_address)
        return next((link.mtu for link in links.links(self._netlink) if link.index == index), _DEFAULT_MTU)

    def add_tunnel(
        self, mac: str, mtu: int, vni: int, node_address: str, name: str, namespace: Path, port: int
    ) -> None:
        """Create a tunnel end in a router namespace; its outer packets are sent by the node."""
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._netlink.request([links.vxlan(name, mac, mtu, vni, node_address, there, port)])
        finally:
            os.close(there)

    def add_macvlan(self, interface: str, name: str, mac: str, namespace: Path) -> None:
        """Create a macvlan in another namespace on one of the node's interfaces."""
        parent = links.link(self._netlink, interface)
        if parent is None:
            raise OSError(errno.ENODEV, f"the node has no interface {interface}")
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._netlink.request([links.macvlan(name, mac, parent.index, there)])
        finally:
            os.close(there)

    def admit(self, senders: Iterable[Sender], answerers: Iterable[Answerer]) -> None:
        """Accept packets of external services from other nodes, for the given senders and answerers."""
        self._nftables.ensure([admission(f"{self._table}-external", senders, answerers)])

    def remove_admission(self) -> None:
        """Remove the rules for packets of external services; nothing receives such packets then."""
        self._nftables.remove("inet", f"{self._table}-external")

    def lead_to_ingress(self, namespace: Path, inside: Netlink, ranges: Iterable[str]) -> None:
        """Connect the ingress namespace, and route ranges of public addresses into it."""
        end = links.link(self._netlink, self._ingress)
        if end is None:
            there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                pair = links.veth(self._ingress, _HOST_MAC, _DEFAULT_MTU, NODE_LINK, ROUTER_MAC, there)
                self._netlink.request([pair])
            finally:
                os.close(there)
            end = links.link(self._netlink, self._ingress)
        other = links.link(inside, NODE_LINK)
        assert end is not None, "a link that was made is there"
        assert other is not None, "the other end is in the ingress namespace"
        inside.request(
            [
                links.setting(other.index),
                # Neighbours are fixed on both ends: nothing is asked or learned on this link.
                *(routing.address(other.index, each) for each in INGRESS_HOPS),
                *(routing.neighbour(other.index, each, _HOST_MAC) for each in INGRESS_LINK),
                *(routing.route(Route(routing.host_prefix(each), other.index)) for each in INGRESS_LINK),
                *(
                    routing.route(Route(each, other.index, hop))
                    for each, hop in zip(("0.0.0.0/0", "::/0"), INGRESS_LINK, strict=True)
                ),
            ]
        )
        self._netlink.request(
            [
                links.setting(end.index),
                *(routing.address(end.index, each) for each in INGRESS_LINK),
                *(routing.neighbour(end.index, each, ROUTER_MAC) for each in INGRESS_HOPS),
            ]
        )
        links.settle(self._netlink, self._ingress)
        links.settle(inside, NODE_LINK)
        namespaces.set_controls(_uplink_controls(self._ingress))
        four, six = INGRESS_HOPS
        wanted = {Route(each, end.index, six if ":" in each else four) for each in ranges}
        present = {each for each in routing.routes(self._netlink) if each.gateway in INGRESS_HOPS}
        self._netlink.request([routing.route(each) for each in sorted(wanted - present)])
        kept = {each.prefix for each in wanted}
        self._netlink.request([routing.no_route(each) for each in present - wanted if each.prefix not in kept])

    def admit_ingress(
        self,
        peers: Iterable[str],
        served: Iterable[str],
        answerers: Iterable[tuple[str, str]],
        routed: Iterable[str],
        doors: Iterable[tuple[str, OpenPort]],
    ) -> None:
        """Accept packets of public addresses from other nodes, and of those in `routed` from routers outside.

        `doors` are node ports, and the addresses that they are translated to.
        """
        own = f"{self._table}-ingress", self._ingress, self._prefix
        tables = [ingress_admission(*own, peers, served, answerers, routed)]
        tables.append(node_ports(f"{self._table}-nodeports", doors))
        self._nftables.ensure(tables)

    def remove_ingress(self) -> None:
        """Remove the link to the ingress namespace with its routes, and the rules for its tunnel."""
        end = links.link(self._netlink, self._ingress)
        self._netlink.request([links.deletion(end.index)] if end else [])
        for name in ("ingress", "nodeports"):
            self._nftables.remove("inet", f"{self._table}-{name}")

    def uplink(self, router: str, namespace: Path, inside: Netlink) -> Uplink:
        """Connect a router namespace with the node."""
        name = f"{self._prefix}{router[:8]}"
        end = links.link(self._netlink, name) or self._connect(name, namespace)
        other = links.link(inside, UPLINK)
        assert other is not None, "the other end of an uplink is in its router namespace"
        # The number is kept in the link's alias: a restarted agent gives the uplink the same addresses.
        number = self._number(end)
        four, six = str(_RANGE[number]), str(_RANGE_SIX[number])
        self._netlink.request(
            [
                links.setting(end.index, alias=f"{namespace.name} {number}"),
                routing.address(end.index, _GATEWAY),
                routing.address(end.index, _GATEWAY_SIX),
                routing.route(Route(f"{four}/32", end.index)),
                routing.route(Route(f"{six}/128", end.index)),
                routing.neighbour(end.index, four, ROUTER_MAC),
                routing.neighbour(end.index, six, ROUTER_MAC),
            ]
        )
        inside.request(
            [
                links.setting(other.index),
                routing.address(other.index, four),
                routing.address(other.index, six),
                routing.neighbour(other.index, _GATEWAY, _HOST_MAC),
                routing.neighbour(other.index, _GATEWAY_SIX, _HOST_MAC),
                routing.route(Route("0.0.0.0/0", other.index, _GATEWAY)),
                routing.route(Route("::/0", other.index, _GATEWAY_SIX)),
            ]
        )
        links.settle(self._netlink, name)
        links.settle(inside, UPLINK)
        namespaces.set_controls(_uplink_controls(name))
        return Uplink(end.index, other.index, four, six)

    def disconnect(self, router: str) -> None:
        """Remove the uplink of a router namespace."""
        end = links.link(self._netlink, f"{self._prefix}{router[:8]}")
        if end is not None:
            self._netlink.request([links.deletion(end.index)])

    def keep_only(self, routers: Sequence[str]) -> None:
        """Remove uplinks of router namespaces that are gone."""
        wanted = {f"{self._prefix}{router[:8]}" for router in routers}
        stale = [link for link in self._uplinks() if link.name not in wanted]
        self._netlink.request([links.deletion(link.index) for link in stale])

    def remove(self) -> None:
        """Restore the namespace to its original state."""
        self._inward.remove()
        # Before the tables: without them, packets of networks would reach the node unfiltered.
        self.keep_only(())
        self._netlink.request([routing.no_route(Route(each)) for each in DIALLED])
        for table in (self._table, f"{self._table}-services"):
            self._nftables.remove("inet", table)
        with suppress(FileNotFoundError):
            namespaces.set_controls(json.loads(self._before.read_text()))
            self._before.unlink()

    def close(self) -> None:
        """Close all sockets."""
        self._inward.close()
        self._netlink.close()
        self._nftables.close()

    def _connect(self, name: str, namespace: Path) -> links.Link:
        there = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pair = links.veth(name, _HOST_MAC, _DEFAULT_MTU, UPLINK, ROUTER_MAC, there)
            self._netlink.request([pair])
        finally:
            os.close(there)
        found = links.link(self._netlink, name)
        assert found is not None, "a link that was made is there"
        return found

    def _number(self, end: links.Link) -> int:
        """Return the number of an uplink, or the first free one."""
        taken = {link.name: int(link.alias.rpartition(" ")[2]) for link in self._uplinks() if link.alias}
        return taken.get(end.name) or next(n for n in range(2, _RANGE.num_addresses) if n not in taken.values())

    def _uplinks(self) -> list[links.Link]:
        return [link for link in links.links(self._netlink) if link.name.startswith(self._prefix)]

    def _remember_controls(self) -> None:
        # Once, and atomically: a restarted agent must not record its own settings as the original ones.
        if not self._before.exists():
            names = list(_FORWARDING) + [
                f"ipv6/conf/{name}/accept_ra"
                for name in ("all", "default", *(link.name for link in links.links(self._netlink)))
            ]
            aside = self._before.with_suffix(".new")
            aside.write_text(json.dumps({name: namespaces.control(name) for name in names}))
            aside.replace(self._before)


def _uplink_controls(name: str) -> dict[str, str]:
    controls = {
        f"{family}/conf/{name}/{control}": value
        for family in ("ipv4", "ipv6")
        for control, value in NO_REDIRECTS.items()
    }
    # A node that accepts router advertisements must not accept those of its own tenants.
    controls[f"ipv6/conf/{name}/accept_ra"] = "0"
    # Lets packets from the node's loopback address to one of its ports leave the node, masqueraded.
    controls[f"ipv4/conf/{name}/route_localnet"] = "1"
    return controls


def tunnels_of(state: NodeNetworks) -> tuple[frozenset[int], frozenset[str]]:
    """Return the numbers of the node's networks, and the nodes that their packets come from."""
    return (
        frozenset(network.vni for network in state.networks if network.vni),
        frozenset(remote.node_address for network in state.networks for remote in network.remotes),
    )
