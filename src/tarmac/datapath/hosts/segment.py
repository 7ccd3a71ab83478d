"""Addresses of the outside of cities on one machine: pure."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

from tarmac.datapath.hosts.plan import BENCHMARKING

_USUAL: Final = "192.168.122.0/24,fd00:122::/64"
_FIRST_CITY, _SERVER, _SERVER6 = 2, 139, 0x139
_MAX_PREFIX_LENGTH: Final = {4: 24, 6: 112}


class BadSegment(ValueError):
    """An invalid segment. The message names it and the reason."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The outside. The second subnet may be missing."""

    subnets: tuple[IPv4Network] | tuple[IPv4Network, IPv6Network]

    @property
    def servers(self) -> tuple[str, ...]:
        """The server's addresses."""
        return tuple(str(subnet[_SERVER6 if subnet.version == 6 else _SERVER]) for subnet in self.subnets)

    def of_city(self, number: int) -> tuple[str, ...]:
        """Return the addresses of a city's link."""
        return tuple(str(subnet[_FIRST_CITY + number]) for subnet in self.subnets)


def read_segment(text: str) -> Segment:
    """Parse `CIDR` or `CIDR,CIDR6`. Raises BadSegment."""
    try:
        parsed = [ip_network(each) for each in text.split(",")]
    except ValueError as error:
        raise BadSegment(f"{text}: {error}; write CIDR or CIDR,CIDR6, such as {_USUAL}") from error
    match parsed:
        case [IPv4Network() as four]:
            made = Segment((four,))
        case [IPv4Network() as four, IPv6Network() as six]:
            made = Segment((four, six))
        case _:
            raise BadSegment(f"{text}: write a subnet of IPv4, or one of IPv4 and one of IPv6, such as {_USUAL}")
    for subnet in made.subnets:
        if subnet.prefixlen > _MAX_PREFIX_LENGTH[subnet.version]:
            raise BadSegment(f"{subnet} is too small: /{_MAX_PREFIX_LENGTH[subnet.version]} is the smallest")
    if made.subnets[0].overlaps(BENCHMARKING):
        raise BadSegment(f"{made.subnets[0]} is where the cities themselves are ({BENCHMARKING})")
    return made
