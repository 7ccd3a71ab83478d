"""Chooses the peers to probe next, and judges which tunnels are closed in which direction. Pure except for the clock.

A node judges only its own observations. While it hears a peer that answers none of its probes, packets to the peer are
lost; while it hears nothing, packets from the peer are. Both ends judge, so a port closed in one direction appears as
`to` on one Node and as `from` on the other.

The probes of a round are limited. With more peers than that, peers with a lost probe come first, in half of the places,
and all remaining peers take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import ceil, inf
from typing import Final, NamedTuple

from tarmac.api.networking.tunnels import ClosedTunnel, Direction

INTERVAL: Final = 10.0
MAX_PROBES: Final = 50
MAX_LOST: Final = 3
_NONCE_BYTES: Final = 8


TunnelRoute = tuple[str, int]
"""The address of a node's tunnels, and the UDP port its packets go to."""


class ProbedPeer(NamedTuple):
    """Another node, the end of its tunnels, a network that both have, and the UDP port its packets go to."""

    node: str
    address: str
    network: str
    port: int

    @property
    def route(self) -> TunnelRoute:
        """Key of the peer: a node has a plaintext and an encrypted path, and either may be closed."""
        return self.address, self.port


class TunnelProbe(NamedTuple):
    """One packet to send. The peer must return the nonce, which no third node sees."""

    peer: ProbedPeer
    nonce: bytes


@dataclass(slots=True)
class _State:
    peer: ProbedPeer
    nonce: bytes = b""  # of the last probe, until it is answered
    sent_at: float = -inf
    lost: int = 0
    lost_since: float = 0.0
    heard_at: float = -inf
    answered: bool = False


class TunnelLosses:
    """The state of each peer, by path."""

    def __init__(self, draw: Callable[[int], bytes]) -> None:
        self._draw = draw
        self._states: dict[TunnelRoute, _State] = {}

    @property
    def is_settled(self) -> bool:
        """True if every peer has answered, or lost enough probes to be called closed."""
        return all(each.answered or each.lost >= MAX_LOST for each in self._states.values())

    @property
    def peers(self) -> int:
        """The number of judged peers."""
        return len(self._states)

    def follow(self, peers: Iterable[ProbedPeer]) -> None:
        """Judge these peers from now on. One that is probed in another network starts anew."""
        wanted = {each.route: each for each in peers}
        # Compared as a whole: losses counted in one network say nothing about another.
        kept = {route: each for route, each in self._states.items() if wanted.get(route) == each.peer}
        self._states = {route: kept.get(route) or _State(peer) for route, peer in wanted.items()}

    def next_round(self, now: float) -> Sequence[TunnelProbe]:
        """Count unanswered probes of the last round, and choose the peers of this one."""
        for state in self._states.values():
            if state.nonce:
                # Set by the first loss only: later ones would move the time that the direction is judged by.
                state.lost_since = state.lost_since if state.lost else state.sent_at
                state.lost, state.nonce = state.lost + 1, b""
        return [self._probe(state, now) for state in self._chosen()]

    def heard(self, route: TunnelRoute, now: float) -> None:
        """Record a packet from a peer."""
        if state := self._states.get(route):
            state.heard_at = now

    def answer(self, route: TunnelRoute, nonce: bytes) -> bool:
        """Record a returned nonce. Return True if it ends a series of lost probes. A nonce counts once."""
        state = self._states.get(route)
        if state is None or not nonce or nonce != state.nonce:
            return False
        # Read before the reset below.
        ended = state.lost >= MAX_LOST or not state.answered
        state.nonce, state.lost, state.answered = b"", 0, True
        return ended

    def closed(self, now: float) -> list[ClosedTunnel]:
        """Return the tunnels that lost several probes in a row."""
        bad = (each for each in self._states.values() if each.lost >= MAX_LOST)
        return [ClosedTunnel(each.peer.node, self._direction(each, now), each.peer.port) for each in bad]

    def _direction(self, state: _State, now: float) -> Direction:
        if state.heard_at > state.lost_since:
            return "to"
        # The peer takes turns as well: until its turn, its silence means nothing.
        return "from" if now - state.lost_since >= self._cycle() else "to or from"

    def _cycle(self) -> float:
        return INTERVAL * (1 if len(self._states) <= MAX_PROBES else ceil(len(self._states) / (MAX_PROBES // 2)))

    def _chosen(self) -> list[_State]:
        states = self._states.values()
        if len(states) <= MAX_PROBES:
            return list(states)
        first = nsmallest(MAX_PROBES // 2, (each for each in states if each.lost), key=_last_sent)
        chosen = {id(each) for each in first}
        others = (each for each in states if id(each) not in chosen)
        return [*first, *nsmallest(MAX_PROBES - len(first), others, key=_last_sent)]

    def _probe(self, state: _State, now: float) -> TunnelProbe:
        state.nonce, state.sent_at = self._draw(_NONCE_BYTES), now
        return TunnelProbe(state.peer, state.nonce)


def _last_sent(state: _State) -> float:
    return state.sent_at
