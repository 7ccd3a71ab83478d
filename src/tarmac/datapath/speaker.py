"""Desired state of a node's BGP speaker: its sessions with routers outside, and the announced addresses.

The speaker announces single addresses of the ranges of each session, with this node as the next hop, and imports
nothing. It runs only while the node should have a session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

ESTABLISHED: Final = "Established"
"""State of a session over which routes are exchanged."""


@dataclass(frozen=True, slots=True, order=True)
class RoutedRanges:
    """Ranges of a pool, and the attributes of routes to its addresses. Communities have two or three numbers."""

    ranges: tuple[str, ...]
    communities: tuple[tuple[int, ...], ...] = ()
    local_preference: int | None = None


@dataclass(frozen=True, slots=True)
class BgpSession:
    """A session with a router. `next_hops` is this node's address for routes of a family that is not the router's.

    Times are in seconds; a `restart` of 0 is none. `bfd` is an interval and a multiplier.
    """

    name: str
    address: str
    asn: int
    local_asn: int
    families: tuple[int, ...]
    pools: tuple[RoutedRanges, ...] = ()
    port: int = 179
    source: str = ""
    next_hops: tuple[tuple[int, str], ...] = ()
    password: str = ""
    hold_time: int = 9
    restart: int = 0
    bfd: tuple[float, int] | None = None
    multihop: bool = False
    checks_ttl: bool = False
    max_prefixes: int = 1000
    local_preference: int | None = None


@dataclass(frozen=True, slots=True)
class SpeakerState:
    """The sessions of a node; `router_id` is an IPv4 address, unique among the routers of the sessions."""

    router_id: str = "0.0.0.0"
    sessions: tuple[BgpSession, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session as it is: its state in BGP's words, its last error, and the number of routes announced over it.

    `exported`: the announced addresses, set only if the session is at its limit of routes and withholds some.
    """

    state: str
    error: str = ""
    announced: int = 0
    exported: frozenset[str] | None = None


class Speaker(Protocol):
    """The BGP speaker of one node."""

    @property
    def available(self) -> bool:
        """True if the node has a program for it."""
        ...

    async def ensure(self, state: SpeakerState) -> None:
        """Have exactly these sessions; without any, end the speaker. Raises OSError."""
        ...

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Withdraw all addresses but these, including those of an earlier agent. Raises OSError."""
        ...

    async def announce(self, addresses: Collection[str]) -> None:
        """Announce exactly these addresses, each over the sessions with its range. Raises OSError."""
        ...

    async def check(self) -> None:
        """Restart a speaker that ended, and restore what other programs removed. Raises OSError."""
        ...

    async def reports(self) -> Mapping[str, SessionReport]:
        """Return the sessions by name; empty while the speaker does not answer."""
        ...
