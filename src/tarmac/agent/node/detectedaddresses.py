"""Detects the node's addresses: the configured ones, else the source addresses of its default routes.

Connecting a datagram socket sends nothing, but makes the kernel choose a source address; that is done for both
families. It works inside a network namespace, where files below /sys still show the host's links.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from tarmac.api.schema import JsonObject

_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def node_addresses(stated: Sequence[str], hostname: str) -> list[JsonObject]:
    """Return `status.addresses`."""
    found = list(stated) or outgoing()
    internal: list[JsonObject] = [{"type": "InternalIP", "address": each} for each in found]
    return [*internal, {"type": "Hostname", "address": hostname}]


def outgoing() -> list[str]:
    """Return the source addresses of packets to distant hosts, IPv4 first."""
    return [address for family, target in _OUTSIDE if (address := _source(family, target))]


def _source(family: int, target: str) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            address = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
    except OSError:
        return None  # the family has no route
    return None if address.is_loopback or address.is_link_local or address.is_unspecified else str(address)
