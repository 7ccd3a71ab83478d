"""Where the interfaces of one pod lead: the first everywhere, the others to the rest of their own networks.

A subnet is only one place of a network; what lies in the others is reached through the subnet's gateway, by a route to
the network's range. Where one range lies within another, both have their routes and the more specific one wins, as
everywhere in routing, whichever interface comes first. Networks may also have the same range. An interface then leads
to it only if none before it does: otherwise a second interface would cut the first one off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

_EVERYWHERE: Final = {4: "0.0.0.0/0", 6: "::/0"}


def routes_of(ranges: Sequence[Iterable[str]]) -> list[tuple[str, ...]]:
    """Destinations by interface, each through the gateway of its family, given the ranges of each one's network."""
    found: list[tuple[str, ...]] = []
    led: set[IPv4Network | IPv6Network] = set()
    everywhere: set[int] = set()
    for own in ranges:
        networks = [ip_network(each) for each in own]
        routes = [str(each) for each in networks if each not in led]
        defaults = [each.version for each in networks if each.version not in everywhere]
        everywhere.update(defaults)
        led.update(networks)
        found.append((*(_EVERYWHERE[version] for version in defaults), *routes))
    return found
