"""Tunnel to the other nodes of a Network: one VXLAN end, and for each node a next hop, its location and its routes.

Nothing is learned or flooded: every node computes the hardware address of every peer's end, and configures its
location. The next hops are IPv6 addresses that no host has, for routes of both families.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Final

from tarmac.api.networking.ports import TUNNEL_PORT
from tarmac.datapath.interface import Remote
from tarmac.datapath.linux import links, routing
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import TUNNEL, tunnel_gateway, tunnel_mac
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import Route
from tarmac.decide.reach.marks import node_marks, probe_address

NO_HOPS: Final[Mapping[str, str]] = {}


def ensure_tunnel(
    host: Host, namespace: Path, netlink: Netlink, vni: int, mtu: int, node_address: str, port: int = TUNNEL_PORT
) -> links.Link | None:
    """Return the tunnel end of a router namespace; None without a VNI, which identifies the Network's packets."""
    found = links.link(netlink, TUNNEL)
    # Routes through the old end go with it: callers ensure theirs afterwards.
    if found is not None and not (vni and links.is_vxlan(found, vni, node_address, port)):
        netlink.request([links.deletion(found.index)])
        found = None
    if not vni:
        return None
    if found is None:
        host.add_tunnel(tunnel_mac(vni, node_address), mtu, vni, node_address, TUNNEL, namespace, port)
        found = links.link(netlink, TUNNEL)
        if found is None:
            raise OSError(f"another network has number {vni}")
    if not found.up or found.mtu != mtu:
        netlink.request([links.setting(found.index, mtu=mtu)])
    return replace(found, mtu=mtu, up=True)


def tunnel_routes(tunnel: links.Link, vni: int, remotes: Iterable[Remote], local: Set[str]) -> set[Route]:
    """Return routes to other nodes and their prefixes, except prefixes that are local by now."""
    return {
        Route(prefix, tunnel.index, tunnel_gateway(tunnel_mac(vni, remote.node_address)))
        for remote in remotes
        for prefix in (*remote.prefixes, *map(routing.host_prefix, _own_addresses(remote.node_address)))
        # A pod may be attached here before its old node's state is known: the local link wins.
        if prefix not in local
    }


def _own_addresses(node_address: str) -> tuple[str, ...]:
    return *node_marks(node_address), probe_address(node_address)


def ensure_ends(
    netlink: Netlink, tunnel: links.Link, vni: int, remotes: Iterable[Remote], also: Mapping[str, str] = NO_HOPS
) -> None:
    """Configure the locations of the other nodes' tunnel ends. `also` has further next hops: hardware addresses."""
    wanted = {tunnel_mac(vni, remote.node_address): remote.node_address for remote in remotes}
    nodes = routing.forwardings(netlink, tunnel.index)
    hops = routing.neighbours(netlink).get(tunnel.index, {})
    gateways = {**{tunnel_gateway(mac): mac for mac in wanted}, **also}
    netlink.request(
        [routing.forwarding(tunnel.index, mac, node) for mac, node in wanted.items() if nodes.get(mac) != node]
        + [routing.neighbour(tunnel.index, hop, mac) for hop, mac in gateways.items() if hops.get(hop) != mac]
        + [routing.no_forwarding(tunnel.index, mac) for mac in nodes if mac not in wanted]
        + [routing.no_neighbour(tunnel.index, hop) for hop in hops if hop not in gateways]
    )
