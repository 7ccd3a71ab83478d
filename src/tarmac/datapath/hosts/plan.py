"""Names and addresses of the hosts of one data directory: pure, and the same at every start.

All names include the directory's id, so that several can exist on one machine. Interface names are limited to fifteen
characters and socket paths to little more than a hundred, hence the short names and the folder under /run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

MTU = 1600  # room for the tunnel headers around a packet of 1500 bytes
BENCHMARKING = IPv4Network("198.18.0.0/15")  # reserved for networks like this one; not routed on the internet
_SUBNETS = 512
_FIRST_HOST, _HOSTS = 10, 240


@dataclass(frozen=True, slots=True)
class CityHost:
    """A city's network namespace, and its link to the bridge. Addresses are without a prefix length."""

    name: str
    namespace: Path
    link: str
    addresses: tuple[str, str]  # IPv4, IPv6


@dataclass(frozen=True, slots=True)
class HostUnderlay:
    """The bridge and all hosts on it."""

    id: str
    run: Path
    bridge: str
    subnets: tuple[IPv4Network, IPv6Network]
    cities: tuple[CityHost, ...]

    @property
    def gateways(self) -> tuple[str, str]:
        """The bridge's own addresses, where the machine itself is reached."""
        return str(self.subnets[0][1]), str(self.subnets[1][1])

    @property
    def table(self) -> str:
        """The nftables table in the machine's own namespace."""
        return f"tarmac-{self.id}"


def identity(data_dir: Path) -> str:
    """Return the id that distinguishes this data directory's objects from those of other directories on the machine."""
    return _digest(str(data_dir)).hex()[:8]


def subnet_choices(data_dir: Path) -> Iterable[IPv4Network]:
    """Yield the subnets to try, the directory's own first."""
    first = int.from_bytes(_digest(str(data_dir))[4:8], "big")
    every = list(BENCHMARKING.subnets(new_prefix=24))
    return (every[(first + step) % _SUBNETS] for step in range(_SUBNETS))


def plan(data_dir: Path, cities: Sequence[str], subnet: IPv4Network) -> HostUnderlay:
    """Return the hosts of these cities.

    A city keeps its address when other cities come and go, unless two get the same number.
    """
    own = identity(data_dir)
    run = Path("/run/tarmac") / own
    six = IPv6Network((b"\xfd" + _digest(str(data_dir))[:5] + bytes(10), 64))
    taken: dict[int, str] = {}
    for city in sorted(cities):
        number = int.from_bytes(_digest(city)[:4], "big") % _HOSTS
        while number in taken:
            number = (number + 1) % _HOSTS
        taken[number] = city
    hosts = [
        CityHost(
            city,
            run / city / "netns",
            f"tm{own[:6]}{_digest(city).hex()[:6]}",
            (str(subnet[_FIRST_HOST + number]), str(six[_FIRST_HOST + number])),
        )
        for number, city in taken.items()
    ]
    return HostUnderlay(own, run, f"tm{own}", (subnet, six), tuple(sorted(hosts, key=lambda host: host.name)))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
