"""Route numbers, which packets carry as marks in an egress namespace: to a gateway, or through an own link.

A number is a routing table. The kernel's routes hold the assignment of numbers to gateways. All addresses with a
dedicated link share one number; the mark of the address, which packets carry too, selects their table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tarmac.datapath.linux.naming import tunnel_gateway, tunnel_mac
from tarmac.datapath.linux.policyrouting import RoutingRule
from tarmac.datapath.linux.routing import Route
from tarmac.datapath.linux.tables.admission import EXTERNAL_VNI
from tarmac.datapath.linux.tables.gateway import FIRST_OUTSIDE, NUMBER_SHIFT

FIRST_TABLE: Final = 1000
TABLES: Final = range(FIRST_TABLE, FIRST_TABLE + 256)
VIRTUAL: Final = 0xFF
"""The number of all addresses that have a dedicated link."""

_FIRST_VIRTUAL: Final = 10_000
_OF_ADDRESSES, _BEFORE_MAIN, _BEHIND_MAIN = 90, 100, 33_000
_MASK: Final = 0xFF << NUMBER_SHIFT
_MASK_OF_ADDRESS: Final = _MASK | 0xFFFF


def hop(node_address: str) -> str:
    """Return the next hop that represents a node in the tunnel."""
    return tunnel_gateway(tunnel_mac(EXTERNAL_VNI, node_address))


def gateway_numbers(gateways: Iterable[str], present: Iterable[Route]) -> dict[str, int]:
    """Return a number for each gateway, by address; those with one in the kernel's routes keep it."""
    # Kept across restarts: a number given to another gateway would misroute packets of live connections.
    known = {route.gateway: route.table - FIRST_TABLE for route in present if route.table < FIRST_TABLE + FIRST_OUTSIDE}
    wanted = sorted(set(gateways))
    found = {each: known[hop(each)] for each in wanted if hop(each) in known}
    taken = set(found.values())
    free = (number for number in range(1, FIRST_OUTSIDE) if number not in taken)
    for each in wanted:
        if each not in found and (number := next(free, None)) is not None:
            found[each] = number
    return found


def outside_numbers(interfaces: Iterable[str]) -> dict[str, int]:
    """Return a number for each interface of the node that leads outside."""
    return dict(zip(sorted(set(interfaces)), range(FIRST_OUTSIDE, VIRTUAL), strict=False))


def virtual_table(mark: int) -> int:
    """Return the routing table of an address with a dedicated link."""
    return _FIRST_VIRTUAL + mark


def tunnel_ways(tunnel: int, numbers: Mapping[str, int]) -> set[Route]:
    """Return the routes to gateways."""
    return {
        Route(prefix, tunnel, hop(gateway), FIRST_TABLE + number)
        for gateway, number in numbers.items()
        for prefix in ("0.0.0.0/0", "::/0")
    }


def rules(numbers: Iterable[int], virtual: Iterable[int] = ()) -> list[RoutingRule]:
    """Return the rules for these numbers, and for the marks of addresses with a dedicated link.

    Packets sent by the namespace itself have no number, and use the first link outside that has routes.
    """
    found, marks = sorted(numbers), sorted(virtual)
    outside = [number for number in found if number >= FIRST_OUTSIDE]
    return [
        *(RoutingRule(_BEFORE_MAIN + number, FIRST_TABLE + number, number << NUMBER_SHIFT, _MASK) for number in found),
        *(
            RoutingRule(_OF_ADDRESSES, virtual_table(each), VIRTUAL << NUMBER_SHIFT | each, _MASK_OF_ADDRESS)
            for each in marks
        ),
        *(RoutingRule(_BEHIND_MAIN, FIRST_TABLE + number) for number in outside[:1]),
        *(RoutingRule(_BEHIND_MAIN, virtual_table(each)) for each in marks),
    ]
