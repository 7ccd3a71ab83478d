"""By which interface a pod sends, and from which of its addresses."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_interface, ip_network

from tarmac.api.networking.interfaces import AttachedInterface


def way_out(interfaces: Sequence[AttachedInterface], address: str) -> AttachedInterface | None:
    """The interface with the longest prefix that leads to an address."""
    best = max(interfaces, key=lambda each: _nearness(each, address), default=None)
    return best if best is not None and _nearness(best, address) >= 0 else None


def own_addresses(interface: AttachedInterface) -> set[str]:
    """Its addresses, without prefix lengths."""
    return {str(ip_interface(each).ip) for each in interface.addresses}


def own_address(interface: AttachedInterface, towards: str) -> str | None:
    """The address that it sends from, of the other's family."""
    version = ip_address(towards).version
    return next((each for each in sorted(own_addresses(interface)) if ip_address(each).version == version), None)


def is_within(address: str, prefix: str) -> bool:
    """Whether an address is of a range."""
    return ip_address(address) in ip_network(prefix, strict=False)


def _nearness(interface: AttachedInterface, address: str) -> int:
    """The length of the longest prefix by which an interface leads to an address; -1 when it does not."""
    subnets = [str(ip_interface(each).network) for each in interface.addresses]
    prefixes = [prefix for prefix in (*subnets, *interface.routes) if is_within(address, prefix)]
    return max((ip_network(prefix).prefixlen for prefix in prefixes), default=-1)
