"""Allocation of identifiers on the wire: dialled addresses, transit addresses, and ids (marks) of SourceIPs.

Dialled addresses and transit numbers are probed upward from a hash of their key, ids upward from the last one. Each is
kept for as long as its object exists, so edits and restarts move nothing. A single worker allocates, so none is given
out twice.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from ipaddress import ip_address, ip_network

from tarmac.api.networking.names import DIALLED, TRANSITS
from tarmac.decide.pooled.ranges import digest

MAX_IDS = 65_535
_TRANSIT_BITS = 28
_DIALLED = {each.version: each for each in map(ip_network, DIALLED)}
_TRANSITS = {each.version: each for each in map(ip_network, TRANSITS)}


def dialled_address(uid: str, family: int, taken: Container[str], known: str = "") -> str:
    """Return the address that Pods dial for an ExternalService; `known` if it is of the target's family."""
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
    """Return the address of a transit number."""
    return str(_TRANSITS[family][number])


def transit_number(address: str) -> int:
    """Return the number of a transit address."""
    parsed = ip_address(address)
    return int(parsed) - int(_TRANSITS[parsed.version].network_address)


def next_transit(service: str, node: str, network: str, source_ip: str, taken: Container[int]) -> int:
    """Return a free number for the connections of one ExternalService, node, Network and SourceIP."""
    places = (1 << _TRANSIT_BITS) - 1
    start = digest(service, node, network, source_ip)
    for step in range(places):
        number = 1 + (start + step) % places
        if number not in taken:
            return number
    raise ValueError("every transit number is taken")


def next_id(taken: Collection[int], last: int) -> int | None:
    """Return the next free id after the last one allocated, wrapping around; None when all are taken.

    A released id is not reused at once: packets and connection state of its previous SourceIP may still exist.
    """
    if len(taken) >= MAX_IDS:
        return None
    for step in range(MAX_IDS):
        number = 1 + (last + step) % MAX_IDS
        if number not in taken:
            return number
    return None
