"""The pod's end of its links: addresses, routes and neighbours inside its own namespace.

Addresses are single hosts and all packets go through the gateway, so a pod shares its link with the router only. A
sandbox with its own kernel reads all this once, before its first process runs; it requires a gateway with every default
route.

Interfaces may share a network. Packets from an address of such an interface leave through it, by a table of its own. In
the main table the first interface routes to the network, and the later ones have a higher metric: a sandbox's own
kernel ignores policy rules, but selects among routes to one destination by source address.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from ipaddress import ip_interface
from typing import Final

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.naming import ROUTER_MAC
from tarmac.datapath.linux.netlink import Netlink, NetlinkMessage
from tarmac.datapath.linux.policyrouting import RoutingRule, ensure_rules
from tarmac.datapath.linux.routing import Route

_LOOPBACK: Final = 1
_FIRST_TABLE: Final = 100  # of an interface on a shared network, plus its position
_PRIORITY: Final = 1000
_BEHIND: Final = 2000  # metric of routes of later interfaces; the kernel's default for IPv6 is 1024
_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}
NO_REDIRECTS: Final = {"accept_redirects": "0", "accept_source_route": "0"}  # no peer may change its routes
_IPV4: Final = ("forwarding", "rp_filter", *NO_REDIRECTS)
_IPV6: Final = ("forwarding", "accept_ra", "accept_dad", "autoconf", *NO_REDIRECTS)
_CONTROLS: Final = {
    f"{family}/conf/{name}/{control}": "0"
    for name in ("all", "default")
    for family, controls in (("ipv4", _IPV4), ("ipv6", _IPV6))
    for control in controls  # forwarding first: disabling it enables `accept_redirects`
}


def prepare_pod(namespace: str) -> None:
    """Set the sysctls that must precede the links of a pod."""
    with namespaces.inside(namespace):
        namespaces.set_controls(_CONTROLS)


def configure_pod(namespace: str, interfaces: Sequence[AttachedInterface]) -> None:
    """Configure the links of a pod, and set them up."""
    with namespaces.inside(namespace):
        netlink = Netlink()
    with closing(netlink):
        netlink.request([links.setting(_LOOPBACK)])
        networks = [each.network for each in interfaces]
        rules: list[RoutingRule] = []
        for position, interface in enumerate(interfaces):
            link = links.link(netlink, interface.name)
            if link is None:
                raise OSError(f"interface {interface.name} has vanished from {namespace}")
            behind = interface.network in networks[:position]
            netlink.request(_settings(link.index, interface, _BEHIND + position if behind else 0))
            if networks.count(interface.network) > 1:
                table = _FIRST_TABLE + position
                netlink.request([routing.route(each) for each in _own_table(link.index, interface, table)])
                rules += [
                    RoutingRule(_PRIORITY, table, source=str(ip_interface(each).ip)) for each in interface.addresses
                ]
            links.settle(netlink, interface.name)
        # After all tables are filled: a rule that selects an empty one would fall back to the main table.
        if rules:
            ensure_rules(netlink, rules)


def gateway_of(interface: AttachedInterface, version: int) -> str:
    """Return the router's address of a family on an interface's link; empty if it has none."""
    pairs = zip(interface.addresses, interface.gateways, strict=False)
    return next((gateway for address, gateway in pairs if _version(address) == version), "")


def _settings(index: int, interface: AttachedInterface, metric: int) -> list[NetlinkMessage]:
    found = [links.setting(index)]
    for address in interface.addresses:
        found.append(routing.address(index, str(ip_interface(address).ip)))
        if gateway := gateway_of(interface, _version(address)):
            found.append(routing.neighbour(index, gateway, ROUTER_MAC))
    # The kernel checks an on-link IPv6 gateway against the first route to it, which may be another interface's.
    routes = (replace(each, metric=metric, checked=bool(metric)) for each in _routes(index, interface))
    return found + [routing.route(each) for each in routes]


def _routes(index: int, interface: AttachedInterface) -> list[Route]:
    """Return the routes of an interface. Those to the gateway come first, since the remaining ones go through it."""
    found: list[Route] = []
    wanted: dict[str, Route] = {}
    addresses = [ip_interface(each) for each in interface.addresses]
    for address in addresses:
        gateway = gateway_of(interface, address.version)
        if gateway:
            found.append(Route(f"{gateway}/{address.max_prefixlen}", index))
            wanted[str(address.network)] = Route(str(address.network), index, gateway)
    for prefix in interface.routes:
        gateway = gateway_of(interface, _version(prefix))
        if gateway:
            wanted[prefix] = Route(prefix, index, gateway)
    own = {f"{address.ip}/{address.max_prefixlen}" for address in addresses}
    return found + [each for prefix, each in wanted.items() if prefix not in own]


def _own_table(index: int, interface: AttachedInterface, table: int) -> list[Route]:
    """Return the table for packets from an interface's addresses: everything, including answers to clients outside."""
    found = {each.prefix: replace(each, table=table, checked=True) for each in _routes(index, interface)}
    for version, prefix in _EVERYWHERE.items():
        if gateway := gateway_of(interface, version):
            found[prefix] = Route(prefix, index, gateway, table, checked=True)
    return list(found.values())


def _version(address: str) -> int:
    return 6 if ":" in address else 4
