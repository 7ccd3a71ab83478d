"""Where the interfaces of one pod lead: the first everywhere, the others to the rest of their own networks.

A subnet is only one place of a network; what lies in the others is reached through the subnet's gateway, by a route to
the network's range. No two interfaces of a pod are on networks that have addresses in common (`overlaps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Final

_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def routes_of(ranges: Sequence[Iterable[str]]) -> list[tuple[str, ...]]:
    """Destinations by interface, each through the gateway of its family, given the ranges of each one's network."""
    found: list[tuple[str, ...]] = []
    everywhere: set[int] = set()
    for own in ranges:
        networks = [ip_network(each) for each in own]
        defaults = [each.version for each in networks if each.version not in everywhere]
        everywhere.update(defaults)
        found.append((*(_EVERYWHERE[version] for version in defaults), *map(str, networks)))
    return found
