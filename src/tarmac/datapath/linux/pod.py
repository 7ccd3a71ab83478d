"""The pod's end of its links: addresses, routes and neighbours inside its own namespace.

Addresses are of single hosts and everything goes through the gateway, so that a pod shares its link with the router
only. A kernel of the pod's own reads all this once, before its first process runs; it wants a gateway with every
default route.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from ipaddress import ip_interface
from typing import Final

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.naming import ROUTER_MAC
from tarmac.datapath.linux.netlink import Message, Netlink
from tarmac.datapath.linux.routing import Route

_LOOPBACK: Final = 1
UNLED: Final = {"accept_redirects": "0", "accept_source_route": "0"}  # nobody tells it another way
_IPV4: Final = ("forwarding", "rp_filter", *UNLED)
_IPV6: Final = ("forwarding", "accept_ra", "accept_dad", "autoconf", *UNLED)
_CONTROLS: Final = {
    f"{family}/conf/{name}/{control}": "0"
    for name in ("all", "default")
    for family, controls in (("ipv4", _IPV4), ("ipv6", _IPV6))
    for control in controls  # forwarding first: turned off, it turns `accept_redirects` on
}


def prepare_pod(namespace: str) -> None:
    """Settings that the links of a pod are made with."""
    with namespaces.inside(namespace):
        namespaces.set_controls(_CONTROLS)


def configure_pod(namespace: str, interfaces: Sequence[AttachedInterface]) -> None:
    """Give the links of a pod what they should have, and set them up."""
    with namespaces.inside(namespace):
        netlink = Netlink()
    with closing(netlink):
        netlink.request([links.setting(_LOOPBACK)])
        for interface in interfaces:
            link = links.link(netlink, interface.name)
            if link is None:
                raise OSError(f"interface {interface.name} has vanished from {namespace}")
            netlink.request(list(_settings(link.index, interface)))
            links.settle(netlink, interface.name)


def gateway_of(interface: AttachedInterface, version: int) -> str:
    """The router's address of a family on an interface's link; empty when it has none."""
    pairs = zip(interface.addresses, interface.gateways, strict=False)
    return next((gateway for address, gateway in pairs if _version(address) == version), "")


def _settings(index: int, interface: AttachedInterface) -> list[Message]:
    found = [links.setting(index)]
    wanted: dict[str, Route] = {}
    addresses = [ip_interface(each) for each in interface.addresses]
    for address in addresses:
        found.append(routing.address(index, str(address.ip)))
        gateway = gateway_of(interface, address.version)
        if gateway:
            found.append(routing.neighbour(index, gateway, ROUTER_MAC))
            found.append(routing.route(Route(f"{gateway}/{address.max_prefixlen}", index)))
            wanted[str(address.network)] = Route(str(address.network), index, gateway)
    for prefix in interface.routes:
        gateway = gateway_of(interface, _version(prefix))
        if gateway:
            wanted[prefix] = Route(prefix, index, gateway)
    own = {f"{address.ip}/{address.max_prefixlen}" for address in addresses}
    return found + [routing.route(each) for prefix, each in wanted.items() if prefix not in own]


def _version(address: str) -> int:
    return 6 if ":" in address else 4
