"""One Network on this node: its router namespace with the pods' links, the tunnel to other nodes, and all rules.

The kernel is the only record, so a router can be adopted after a crash at any point, and every step may be repeated.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence, Set
from ipaddress import ip_interface
from pathlib import Path
from typing import Final

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import DIALLED
from tarmac.datapath.interface import NetworkState, Traffic
from tarmac.datapath.linux import conntrack, links, namespaces, routing
from tarmac.datapath.linux.ends import RouterEnds, RouterLink
from tarmac.datapath.linux.host import Host
from tarmac.datapath.linux.inward import Uplink, door_numbers
from tarmac.datapath.linux.naming import TUNNEL, UPLINK, sandbox_mark
from tarmac.datapath.linux.netlink import NETFILTER, Netlink
from tarmac.datapath.linux.nftables import Nftables, Table
from tarmac.datapath.linux.pod import NO_REDIRECTS
from tarmac.datapath.linux.revoking import concerns, is_revoked, may_revoke
from tarmac.datapath.linux.routing import Route, host_prefix
from tarmac.datapath.linux.tables import pods
from tarmac.datapath.linux.tables.egress import egress
from tarmac.datapath.linux.tables.policy import policy
from tarmac.datapath.linux.tables.services import NAME as SERVICES
from tarmac.datapath.linux.tables.services import Client, client_sets, services
from tarmac.datapath.linux.tunnel import ensure_ends, ensure_tunnel, tunnel_routes
from tarmac.decide.reach.policyrules import ServiceFrontend

_LOOPBACK: Final = 1
_LINK_LOCAL: Final = "169.254.0.0/16"  # services on such addresses belong to the platform, or do not exist
_IPV4: Final = {"forwarding": "1", "rp_filter": "0", "arp_ignore": "1", "send_redirects": "0", **NO_REDIRECTS}
_IPV6: Final = {"forwarding": "1", "accept_ra": "0", "accept_dad": "0", **NO_REDIRECTS}
_CONTROLS: Final = {
    f"{family}/conf/{name}/{control}": value
    for name in ("all", "default")
    for family, controls in (("ipv4", _IPV4), ("ipv6", _IPV6))
    for control, value in controls.items()  # forwarding first: it sets further sysctls
}


class Router:
    """A Network's router namespace, created on demand. Used from the datapath's thread only."""

    def __init__(self, path: Path, host: Host) -> None:
        self.path = path
        self._host = host
        fresh = namespaces.create(path)
        with namespaces.inside(path):
            # Only if they differ: writing `forwarding` resets further sysctls of links in use.
            if fresh or any(namespaces.control(name) != value for name, value in _CONTROLS.items()):
                namespaces.set_controls(_CONTROLS)
            self._netlink = Netlink()
            self._conntrack = Netlink(NETFILTER)
            self._nftables = Nftables()
        self._state: NetworkState | None = None
        self._made: tuple[NetworkState, str] | None = None
        self.uplink: Uplink | None = None
        try:
            self._netlink.request([links.setting(_LOOPBACK)])
            self._tunnel = links.link(self._netlink, TUNNEL)
            self._ends = RouterEnds(path, self._netlink, self._nftables)
            # Links of an earlier process carry packets already: their source check comes before anything else.
            self._nftables.ensure(self._ends.antispoof())
        except BaseException:
            self.close()
            raise

    def configure(self, state: NetworkState, node_address: str, *, verify: bool) -> None:
        """Configure everything but the pods' ends. Parts known to be unchanged are checked only with `verify`."""
        known = self._made if not verify and self._made and self._made[1] == node_address else None
        before = known[0] if known else None
        if before == state:
            return
        self._made = None  # unknown if this fails halfway
        if before is None or (before.vni, before.mtu) != (state.vni, state.mtu):
            self.uplink = self._host.uplink(self.path.name, self.path, self._netlink)
            mtu = self._host.mtu(state.mtu, node_address)
            self._tunnel = ensure_tunnel(self._host, self.path, self._netlink, state.vni, mtu, node_address)
            # A new tunnel has lost its routes: everything is configured again.
            before = None
        if before is None or (before.ranges, before.remotes) != (state.ranges, state.remotes):
            self._ensure_routes(state)
        known_pods = pods.marks(before.pods) if before else self._marks()
        about_pods = pods.change(known_pods, pods.marks(state.pods))
        # Rules and marks in one transaction: `has_rules_about` must not report a pod whose rules are not in force.
        self._nftables.ensure(self._tables(state), verify=verify, also=about_pods)
        # After the new rules: a connection forgotten earlier could be tracked again under the old ones.
        if may_revoke(self._state, state):
            conntrack.forget(self._conntrack, is_revoked(state.rules, self._services(state)))
        self._state, self._made = state, (state, node_address)

    @property
    def ends(self) -> Sequence[RouterLink]:
        """The router's ends of the links of pods and machines."""
        return self._ends.all

    def attach(self, sandbox_id: str, position: int, interface: AttachedInterface, namespace: int) -> None:
        """Create one link of a pod, into the namespace of an open file."""
        self._ends.attach(sandbox_id, position, interface, namespace, self._max_packet)

    def attach_tap(self, sandbox_id: str, position: int, interface: AttachedInterface) -> AttachedInterface:
        """Create one link of a machine; return the interface with its hardware address and MTU."""
        return self._ends.attach_tap(sandbox_id, position, interface, self._max_packet)

    def open_tap(self, name: str, *, further: bool) -> io.FileIO:
        """Open a link of a machine, or a further queue of it, to read and write frames. Raises OSError."""
        return self._ends.open_tap(name, further=further)

    def traffic(self) -> Iterator[tuple[str, Traffic]]:
        """Yield the bytes that machines received and sent on each link, by sandbox."""
        return self._ends.traffic()

    def settle(self, sandbox_id: str, position: int) -> None:
        """Begin to send on a link, once its other end is up."""
        self._ends.settle(sandbox_id, position)

    def detach(self, sandbox_id: str) -> None:
        """Disable the links of a sandbox."""
        mark = sandbox_mark(sandbox_id)
        self.remove_ends([each for each in self.ends if each.end.link.startswith(mark)])

    def remove_ends(self, gone: Sequence[RouterLink]) -> None:
        """Block all traffic through links, and delete the connections that used them."""
        if not gone:
            return
        self._ends.remove(gone)
        addresses = {address for each in gone for address in each.end.addresses}
        # After the links are blocked: packets in between would create the entries again, for the next pod of the
        # address.
        conntrack.forget(self._conntrack, concerns(addresses))
        # While the address was local, its route to the new node was withheld.
        if self._state is not None and _are_elsewhere(addresses, self._state):
            self._ensure_routes(self._state)

    def clear(self) -> None:
        """Remove links without a sandbox."""
        self._ends.clear()

    def add_address(self, address: str) -> None:
        """Add an address to the router, for a service of the platform."""
        self._netlink.request([routing.address(_LOOPBACK, address)])

    def has_address(self, address: str) -> bool:
        """Return True if an address is the router's own by now."""
        return routing.is_local(self._netlink, address)

    def has_rules_about(self, pod: str, addresses: Iterable[str]) -> bool:
        """Return True if the kernel's rules are for this pod at all these addresses."""
        own = pods.marks({str(ip_interface(each).ip): pod for each in addresses})
        return own.items() <= self._marks().items()

    def close(self) -> None:
        """Close sockets; the namespace stays."""
        self._netlink.close()
        self._conntrack.close()
        self._nftables.close()

    def remove(self) -> None:
        """Remove the namespace and everything in it."""
        # Without known ends, `clear` deletes every link.
        self._ends.all = []
        self.clear()
        tunnel = links.link(self._netlink, TUNNEL)
        self._netlink.request([links.deletion(tunnel.index)] if tunnel else [])
        # Links first: the namespace lives on while another process uses it, and would still answer.
        self._host.disconnect(self.path.name)
        namespaces.remove(self.path)
        self.close()

    @property
    def _max_packet(self) -> int:
        """The largest packet that the tunnel accepts; 0 while there is none."""
        return self._tunnel.mtu if self._tunnel else 0

    def _marks(self) -> dict[str, str]:
        return pods.found(self._nftables.listing("inet", pods.NAME))

    def _tables(self, state: NetworkState) -> list[Table]:
        ports = self._services(state)
        return [
            policy(state.rules),
            services(ports, self._remembered(ports)),
            egress(UPLINK, state.internet),
            *self._ends.antispoof(),
        ]

    def _services(self, state: NetworkState) -> tuple[ServiceFrontend, ...]:
        """Return cluster addresses, and the node's ports: the node sends their packets to this end of the uplink."""
        assert self.uplink is not None, "a router that has rules is connected"
        own = [
            ServiceFrontend(self.uplink.address(port.backend[0]), port.protocol, number, (port.backend,))
            for port, number in door_numbers(state.host_ports).items()
        ]
        return (*state.services, *own)

    def _ensure_routes(self, state: NetworkState) -> None:
        tunnel = self._tunnel
        local = self._ends.prefixes()
        wanted = {Route(prefix) for prefix in (*state.ranges, _LINK_LOCAL, DIALLED[1])}
        if tunnel is not None:
            ensure_ends(self._netlink, tunnel, state.vni, state.remotes)
            wanted |= tunnel_routes(tunnel, state.vni, state.remotes, local)
        ours = {0, tunnel.index if tunnel else 0}
        present = {route for route in routing.routes(self._netlink) if route.link in ours}
        replaced = {route.prefix for route in wanted}
        self._netlink.request([routing.route(each) for each in sorted(wanted - present)])
        # Deleting a replaced route would delete its replacement.
        stale = [each for each in present - wanted if each.prefix not in replaced | local]
        self._netlink.request([routing.no_route(each) for each in stale])

    def _remembered(self, ports: Iterable[ServiceFrontend]) -> dict[str, list[Client]]:
        """Return the clients of services with affinity, which a replaced table must keep."""
        names = set(client_sets(tuple(ports)))
        if not names:
            return {}
        shown = self._nftables.listing("inet", SERVICES, stateless=False)
        sets = [each["set"] for each in shown if "set" in each and each["set"]["name"] in names]
        return {
            each["name"]: [(entry["elem"]["val"], entry["elem"]["expires"]) for entry in each.get("elem", ())]
            for each in sets
        }


def _are_elsewhere(addresses: Set[str], state: NetworkState) -> bool:
    """Return True if other nodes have some of these addresses by now. No routes to local addresses were created."""
    return any(host_prefix(address) in remote.prefixes for address in addresses for remote in state.remotes)
