"""Numbers in marks of an ingress namespace: nodes, links to Networks, and public addresses.

Connections carry them, so a number in use never changes. The kernel's tables and routes hold the assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tarmac.datapath.linux import links
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.policyrouting import RoutingRule
from tarmac.datapath.linux.routing import routes
from tarmac.datapath.linux.tables.ingress import BACK, EXIT, KIND, LEG, NODE, NUMBER

TUNNEL_TABLE: Final = 117
FIRST_LEG: Final = 2000
MAX_LEGS: Final = 1000
FIRST_EXIT: Final = 10_000
LOCAL_PRIORITY: Final = 200
_TUNNEL_PRIORITY, _LEG_PRIORITY, _EXIT_PRIORITY = 100, 110, 120


def numbered(wanted: Iterable[str], known: Mapping[str, int], highest: int) -> dict[str, int]:
    """Return a number from 1 for each name; those with one keep it. Names beyond the highest number get none.

    A number just released is reused last: connections may still carry it.
    """
    names = set(wanted)
    found = {each: number for each, number in known.items() if each in names}
    taken = set(found.values())
    start = max(known.values(), default=0)
    places = (1 + (start + step) % highest for step in range(highest))
    free = (each for each in places if each not in taken)
    for each in sorted(names - found.keys()):
        if (number := next(free, None)) is not None:
            found[each] = number
    return found


def known_legs(netlink: Netlink) -> dict[str, int]:
    """Return the numbers of links to Networks, by name, from the kernel's routes."""
    names = {each.index: each.name for each in links.links(netlink)}
    tables = range(FIRST_LEG, FIRST_LEG + MAX_LEGS)
    return {names[each.link]: each.table - FIRST_LEG for each in routes(netlink, tables) if each.link in names}


def rules(legs: Iterable[int], exits: Iterable[int]) -> list[RoutingRule]:
    """Return the routing rules. `exits` are marks of links outside."""
    return [
        RoutingRule(_TUNNEL_PRIORITY, TUNNEL_TABLE, NODE, KIND),
        RoutingRule(_TUNNEL_PRIORITY, TUNNEL_TABLE, BACK, BACK),
        *(RoutingRule(_LEG_PRIORITY, FIRST_LEG + each, LEG | each, KIND | NUMBER) for each in legs),
        *(RoutingRule(_EXIT_PRIORITY, exit_table(each), each, KIND | NUMBER) for each in exits),
    ]


def exit_table(mark: int) -> int:
    """Return the routing table of a link outside."""
    return FIRST_EXIT + (mark & ~EXIT)
