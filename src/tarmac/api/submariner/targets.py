"""Addresses that can be no server outside the platform, whatever else there is.

What depends on other objects (nodes, Networks, classes) is told by admission and, later, by the controller.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from tarmac.api.networking.names import DIALLED, NODE_MARKS, SERVICE_RANGES, TRANSITS, UPLINKS
from tarmac.api.networking.validation.ranges import Address

_USES: Final = {
    "the addresses that mean no host": ("0.0.0.0/8", "::/128"),
    "the loopback of every host": ("127.0.0.0/8", "::1/128"),
    "the addresses that stand for servers outside": DIALLED,
    "the platform's ways into networks": UPLINKS,
    "the link-local addresses": ("169.254.0.0/16", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "the addresses that stand for nodes": NODE_MARKS,
    "the addresses of connections to servers outside": TRANSITS,
    "the addresses of IPv4 written as IPv6": ("::ffff:0:0/96",),
    "the addresses of Services": SERVICE_RANGES,
}
_RANGES: Final = [(ipaddress.ip_network(written), use) for use, ranges in _USES.items() for written in ranges]


def not_outside(what: str) -> str:
    """How a target is refused: `what` is the part of the platform and its range."""
    return f"must be the address of a server outside the platform: it is in {what}"


def reserved_between(family: int, first: int, last: int) -> str | None:
    """The first reserved range that overlaps these addresses, with its use; None if there is none."""
    for each, use in _RANGES:
        if each.version == family and first <= int(each.broadcast_address) and int(each.network_address) <= last:
            return f"{use} {each}"
    return None


def reserved_for(target: Address) -> str | None:
    """Which part of the platform an address belongs to by itself, with its range; None when to none."""
    for each, use in _RANGES:
        if each.version == target.version and target in each:
            return f"{use} {each}"
    return None
