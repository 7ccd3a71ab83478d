"""The network-config document: the interfaces with the addresses that they were given.

IPv4 carries the subnet's prefix, and the router answers ARP for everybody else in it. IPv6 is an address of one host
behind the router's link-local address. An interface that has the way to everywhere in its routes gets a gateway of that
family, the resolvers and the way to addresses that stand for servers outside; the others get routes alone. The keys
`gateway4` and `gateway6` come out right with every renderer, which `to: default` and `to: ::/0` do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_interface, ip_network

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import DIALLED
from tarmac.runtimes.qemu.seed.scalars import flow_list, flow_map, quoted, scalar


@dataclass(frozen=True, slots=True)
class GuestNetwork:
    """What is the same for all interfaces: the router's link-local address, the resolvers, the domains to search."""

    router: str
    resolvers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()


def network_config(interfaces: Sequence[AttachedInterface], around: GuestNetwork) -> str:
    """The document, version 2 of cloud-init's own format."""
    lines = ["version: 2", "ethernets:"]
    for interface in interfaces:
        lines.append(f"  {scalar(interface.name)}:")
        lines += (f"    {line}" for line in _interface(interface, around))
    return "\n".join(lines) + "\n"


def _interface(interface: AttachedInterface, around: GuestNetwork) -> Iterator[str]:
    gateways = _gateways(interface, around)
    default = {4: False, 6: False}
    routes: list[str] = []
    for route in interface.routes:
        destination = ip_network(route)
        if destination.version not in gateways:
            continue  # there is no way to a family without an address of it
        if destination.prefixlen == 0:
            default[destination.version] = True
        else:
            via = scalar(gateways[destination.version])
            routes.append("- " + flow_map({"to": scalar(str(destination)), "via": via}))
    if default[4]:
        # Some guests keep all of 169.254.0.0/16 on the link, and would look there for servers outside the platform.
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
    if any(default.values()) and around.resolvers:
        addresses = flow_list(map(quoted, around.resolvers))
        search = flow_list(map(scalar, around.search))
        yield f"nameservers: {flow_map({'addresses': addresses, 'search': search})}"


def _gateways(interface: AttachedInterface, around: GuestNetwork) -> dict[int, str]:
    """The next hop of each family that the interface has an address of."""
    found: dict[int, str] = {}
    for address, gateway in zip(interface.addresses, interface.gateways, strict=True):
        version = ip_interface(address).version
        found.setdefault(version, around.router if version == 6 else gateway)
    return found


def _address(written: str) -> str:
    address = ip_interface(written)
    return f"{address.ip}/128" if address.version == 6 else str(address)
