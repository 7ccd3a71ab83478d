"""Which addresses a node is reached at: those it is told, else the ones it would use to go out.

Connecting a datagram socket sends nothing, but makes the kernel choose the address it would send from; that is asked
for both families. It works inside a network namespace, where files below /sys still show the host's links.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from tarmac.api.schema import JsonObject

_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def node_addresses(told: Sequence[str], hostname: str) -> list[JsonObject]:
    """`status.addresses`."""
    found = list(told) or outgoing()
    internal: list[JsonObject] = [{"type": "InternalIP", "address": each} for each in found]
    return [*internal, {"type": "Hostname", "address": hostname}]


def outgoing() -> list[str]:
    """The addresses packets to far away leave with, IPv4 first."""
    return [address for family, target in _OUTSIDE if (address := _source(family, target))]


def _source(family: int, target: str) -> str | None:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            address = ipaddress.ip_address(probe.getsockname()[0].partition("%")[0])
    except OSError:
        return None  # the family has no way out
    return None if address.is_loopback or address.is_link_local or address.is_unspecified else str(address)
