"""Addresses that are never servers outside the platform.

Admission and, later, the controller check conflicts with other objects (nodes, Networks, classes).
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
    """Return the error for a rejected target, given the part of the platform and its range."""
    return f"must be the address of a server outside the platform: it is in {what}"


def reserved_between(family: int, first: int, last: int) -> str | None:
    """Return the first reserved range that overlaps these addresses, with its use; None if there is none."""
    for each, use in _RANGES:
        if each.version == family and first <= int(each.broadcast_address) and int(each.network_address) <= last:
            return f"{use} {each}"
    return None


def reserved_for(target: Address) -> str | None:
    """Return the reserved range that contains the address, with its use; None if there is none."""
    for each, use in _RANGES:
        if each.version == target.version and target in each:
            return f"{use} {each}"
    return None
