"""Numbers that stand for things on the wire: the address that Pods dial, transit addresses, identities of addresses.

Each is found by trying from a place that follows from what it stands for, and kept for as long as that lives, so that
edits and restarts move nothing. One worker gives them out.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from ipaddress import ip_address, ip_network

from tarmac.api.networking.names import DIALLED, TRANSITS
from tarmac.decide.egress.ranges import digest

MOST_IDS = 65_535
_TRANSIT_BITS = 28
_DIALLED = {each.version: each for each in map(ip_network, DIALLED)}
_TRANSITS = {each.version: each for each in map(ip_network, TRANSITS)}


def dialled_address(uid: str, family: int, taken: Container[str], known: str = "") -> str:
    """The address that Pods dial for an ExternalService; the one it has, if that is of the target's family."""
    network = _DIALLED[family]
    if known and ip_address(known) in network:
        return known
    places = min(network.num_addresses, 1 << 32) - 2  # without the first and the last
    for step in range(places):
        address = str(network[1 + (digest(uid) + step) % places])
        if address not in taken:
            return address
    raise ValueError("every dialled address is taken")


def transit_address(number: int, family: int) -> str:
    """The address of a transit number."""
    return str(_TRANSITS[family][number])


def transit_number(address: str) -> int:
    """The number of a transit address."""
    parsed = ip_address(address)
    return int(parsed) - int(_TRANSITS[parsed.version].network_address)


def next_transit(service: str, node: str, network: str, source_ip: str, taken: Container[int]) -> int:
    """A number for the connections of one ExternalService, node, Network and SourceIP."""
    places = (1 << _TRANSIT_BITS) - 1
    start = digest(service, node, network, source_ip)
    for step in range(places):
        number = 1 + (start + step) % places
        if number not in taken:
            return number
    raise ValueError("every transit number is taken")


def next_id(taken: Collection[int], last: int) -> int | None:
    """The next free identity above the last one given, and round again; None when all are taken.

    One that was just given up is not given again at once: packets and state of its last bearer may still be about.
    """
    if len(taken) >= MOST_IDS:
        return None
    for step in range(MOST_IDS):
        number = 1 + (last + step) % MOST_IDS
        if number not in taken:
            return number
    return None
