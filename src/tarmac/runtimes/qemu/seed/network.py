"""The network-config document: the interfaces and their assigned addresses.

IPv4 addresses have the subnet's prefix, and the router answers ARP for all other addresses in it. IPv6 addresses are
/128, behind the router's link-local address. An interface with a default route gets a gateway of that family, the
resolvers, and a route to the addresses that represent servers outside; all other interfaces get routes only. The keys
`gateway4` and `gateway6` work with every renderer, unlike `to: default` and `to: ::/0`. Of several interfaces on one
network, the first has the routes: most renderers reject a second route to the same destination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network

from msgspec.structs import replace

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import DIALLED
from tarmac.runtimes.qemu.seed.scalars import flow_list, flow_map, quoted, scalar


@dataclass(frozen=True, slots=True)
class GuestNetwork:
    """Settings common to all interfaces: the router's link-local address, the resolvers, the search domains."""

    router: str
    resolvers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


def network_config(interfaces: Sequence[AttachedInterface], network: GuestNetwork) -> str:
    """Build the document, in version 2 of cloud-init's own format."""
    lines = ["version: 2", "ethernets:"]
    led: set[tuple[str, str]] = set()
    for interface in interfaces:
        families = _gateways(interface, network)
        # Routes of a family without an address would have no gateway.
        routes = [each for each in interface.routes if ip_network(each).version in families]
        first = [each for each in routes if (interface.network, each) not in led]
        led.update((interface.network, each) for each in first)
        lines.append(f"  {scalar(interface.name)}:")
        lines += (f"    {line}" for line in _interface(replace(interface, routes=first), network))
    return "\n".join(lines) + "\n"


def _interface(interface: AttachedInterface, network: GuestNetwork) -> Iterator[str]:
    gateways = _gateways(interface, network)
    default = {4: False, 6: False}
    routes: list[str] = []
    for route in interface.routes:
        destination = ip_network(route)
        if destination.prefixlen == 0:
            default[destination.version] = True
        else:
            via = scalar(gateways[destination.version])
            routes.append("- " + flow_map({"to": scalar(str(destination)), "via": via}))
    if default[4]:
        # Some guests treat all of 169.254.0.0/16 as on-link, and would look there for servers outside the platform.
        routes.append("- " + flow_map({"to": scalar(DIALLED[0]), "via": scalar(gateways[4])}))
    yield f"match: {flow_map({'macaddress': quoted(interface.mac)})}"
    yield f"set-name: {scalar(interface.name)}"
    if interface.mtu:
        yield f"mtu: {interface.mtu}"
    yield from ("dhcp4: false", "dhcp6: false", "accept-ra: false")
    yield f"addresses: {flow_list(quoted(_address(each)) for each in interface.addresses)}"
    yield from (f"gateway{version}: {scalar(gateways[version])}" for version in (4, 6) if default[version])
    if routes:
        yield "routes:"
        yield from routes
    if any(default.values()) and network.resolvers:
        addresses = flow_list(map(quoted, network.resolvers))
        search = flow_list(map(scalar, network.search))
        yield f"nameservers: {flow_map({'addresses': addresses, 'search': search})}"


def _gateways(interface: AttachedInterface, network: GuestNetwork) -> dict[int, str]:
    """Return the next hop of each address family of the interface."""
    found: dict[int, str] = {}
    for address, gateway in zip(interface.addresses, interface.gateways, strict=True):
        version = ip_interface(address).version
        found.setdefault(version, network.router if version == 6 else gateway)
    return found


def _address(written: str) -> str:
    address = ip_interface(written)
    return f"{address.ip}/128" if address.version == 6 else str(address)
