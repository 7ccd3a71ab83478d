"""Selection of a pod's outgoing interface and source address."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_interface, ip_network

from tarmac.api.networking.interfaces import AttachedInterface


def way_out(interfaces: Sequence[AttachedInterface], address: str) -> AttachedInterface | None:
    """Return the interface with the longest prefix that matches an address; None if no interface does."""
    best = max(interfaces, key=lambda each: _nearness(each, address), default=None)
    return best if best is not None and _nearness(best, address) >= 0 else None


def own_addresses(interface: AttachedInterface) -> set[str]:
    """Return the addresses of an interface without prefix lengths."""
    return {str(ip_interface(each).ip) for each in interface.addresses}


def own_address(interface: AttachedInterface, towards: str) -> str | None:
    """Return the source address for a destination, of the same family; None if there is none."""
    version = ip_address(towards).version
    return next((each for each in sorted(own_addresses(interface)) if ip_address(each).version == version), None)


def is_within(address: str, prefix: str) -> bool:
    """Return True if an address is in a range."""
    return ip_address(address) in ip_network(prefix, strict=False)


def _nearness(interface: AttachedInterface, address: str) -> int:
    """Return the length of the longest prefix of an interface that matches an address; -1 if none does."""
    subnets = [str(ip_interface(each).network) for each in interface.addresses]
    prefixes = [prefix for prefix in (*subnets, *interface.routes) if is_within(address, prefix)]
    return max((ip_network(prefix).prefixlen for prefix in prefixes), default=-1)
