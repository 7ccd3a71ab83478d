"""The way to the other nodes of a Network: one VXLAN end, and for each node a next hop, its place and its routes.

Nothing is learned and nothing is flooded: every node works out the hardware address of every other's end, and says
where it is. The next hops are addresses of IPv6 that nobody has, for routes of both families.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from pathlib import Path

from tarmac.datapath.interface import Remote
from tarmac.datapath.linux import links, routing
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.naming import TUNNEL, tunnel_gateway, tunnel_mac
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import Route
from tarmac.decide.reach.marks import node_marks


def ensure_tunnel(
    host: Host, namespace: Path, netlink: Netlink, vni: int, mtu: int, node_address: str, port: int = links.VXLAN_PORT
) -> links.Link | None:
    """The tunnel end of a router namespace; none without a number to tell the Network's packets by."""
    found = links.link(netlink, TUNNEL)
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
    """Routes to other nodes and what lives there, but for prefixes that are local by now."""
    return {
        Route(prefix, tunnel.index, tunnel_gateway(tunnel_mac(vni, remote.node_address)))
        for remote in remotes
        for prefix in (*remote.prefixes, *map(routing.host_prefix, node_marks(remote.node_address)))
        if prefix not in local
    }


def ensure_ends(netlink: Netlink, tunnel: links.Link, vni: int, remotes: Iterable[Remote]) -> None:
    """Say where the tunnel ends of the other nodes are."""
    wanted = {tunnel_mac(vni, remote.node_address): remote.node_address for remote in remotes}
    nodes = routing.forwardings(netlink, tunnel.index)
    hops = routing.neighbours(netlink).get(tunnel.index, {})
    gateways = {tunnel_gateway(mac): mac for mac in wanted}
    netlink.request(
        [routing.forwarding(tunnel.index, mac, node) for mac, node in wanted.items() if nodes.get(mac) != node]
        + [routing.neighbour(tunnel.index, hop, mac) for hop, mac in gateways.items() if hops.get(hop) != mac]
        + [routing.no_forwarding(tunnel.index, mac) for mac in nodes if mac not in wanted]
        + [routing.no_neighbour(tunnel.index, hop) for hop in hops if hop not in gateways]
    )
