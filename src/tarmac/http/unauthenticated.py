"""Bounds unauthenticated connections: no client certificate, and no request with a valid credential yet.

Above the limit, the oldest connection of the address with the most is closed, so that a client that opens thousands of
silent ones evicts its own. Authenticated connections no longer count. IPv6 addresses count by their /64, the least that
one host has.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from ipaddress import IPv6Address
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class UnauthenticatedConnections(Generic[T]):
    """The unauthenticated connections of one listener, oldest first within each address."""

    def __init__(self, limit: int) -> None:
        self._most = limit
        self._places: dict[str, dict[T, None]] = {}
        self._place_of: dict[T, str] = {}

    def add(self, connection: T, address: str) -> T | None:
        """Add a connection; returns the one to evict, if any."""
        place = _place(address)
        self._places.setdefault(place, {})[connection] = None
        self._place_of[connection] = place
        if len(self._place_of) <= self._most:
            return None
        peers = max(self._places.values(), key=len)
        oldest = next(iter(peers))
        self.discard(oldest)
        return oldest

    def discard(self, connection: T) -> None:
        """Remove a connection that has closed or authenticated."""
        place = self._place_of.pop(connection, None)
        if place is not None:
            peers = self._places[place]
            del peers[connection]
            if not peers:
                del self._places[place]

    def __contains__(self, connection: T) -> bool:
        return connection in self._place_of

    def __len__(self) -> int:
        return len(self._place_of)

    def __iter__(self) -> Iterator[T]:
        """Oldest first."""
        return iter(self._place_of)


def _place(address: str) -> str:
    if ":" not in address:
        return address
    try:
        whole = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = whole.ipv4_mapped
    return str(mapped) if mapped is not None else whole.exploded[:19]
