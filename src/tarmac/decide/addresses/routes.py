"""Routes of a pod's interfaces: the first gets the default route, every interface the routes to its own network.

A subnet covers one Location of a network; the other Locations are reached through the subnet's gateway, by a route to
the network's range. The networks of a pod's interfaces do not overlap (`overlaps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Final

_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def routes_of(ranges: Sequence[Iterable[str]]) -> list[tuple[str, ...]]:
    """Return the destinations of each interface, given its network's ranges; each via the gateway of its family."""
    found: list[tuple[str, ...]] = []
    everywhere: set[int] = set()
    for own in ranges:
        networks = [ip_network(each) for each in own]
        defaults = [each.version for each in networks if each.version not in everywhere]
        everywhere.update(defaults)
        found.append((*(_EVERYWHERE[version] for version in defaults), *map(str, networks)))
    return found
