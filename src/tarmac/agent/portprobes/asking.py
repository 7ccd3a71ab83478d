"""Probes the UDP ports between this node and others, once: `tarmac join` runs it.

Nodes of one Location exchange packets at 4789, from any port. Nodes of different Locations do at 4802, which is open
when either side may open the connection.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tarmac.agent.portprobes.portmessages import (
    ANSWER,
    PROBED_PORTS,
    REQUEST,
    PortFindings,
    PortMessage,
    PortSeals,
    key_of,
)
from tarmac.agent.portprobes.rawudp import RawUdp
from tarmac.api.networking.ports import ENCRYPTED_PORT, TUNNEL_PORT
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.networking.tunnels import ClosedTunnel
from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness

TIMEOUT: Final = 8.0
MAX_PEERS: Final = 20
MAX_PER_LOCATION: Final = 3
_ROUND: Final = 0.5
_PAUSE: Final = 0.05
_BURST: Final = 256
_SOURCE: Final = 49151


class AskedPeer(NamedTuple):
    """A node to probe, the port that its packets need, and its key."""

    name: str
    address: str
    port: int
    key: bytes


def peers_of(own: TunnelEndpoint, others: Mapping[str, TunnelEndpoint]) -> list[AskedPeer]:
    """Return Ready nodes that answer: a few of each Location, with the port that packets from `own` need."""
    six = ":" in own.addresses[0]
    found: dict[str, list[AskedPeer]] = {}
    for name, each in sorted(others.items()):
        address = next((one for one in each.addresses if (":" in one) == six), "")
        if each.ready and each.probes and address and (key := key_of(each.public_key)):
            near = each.location == own.location != ""
            port = TUNNEL_PORT if near else ENCRYPTED_PORT
            found.setdefault(each.location, []).append(AskedPeer(name, address, port, key))
    # The first of each Location come before the second of any: a limit must not leave a Location out.
    ranks = itertools.zip_longest(*(peers[:MAX_PER_LOCATION] for _, peers in sorted(found.items())))
    return [each for rank in ranks for each in rank if each][:MAX_PEERS]


async def probe_ports(
    seals: PortSeals, address: str, peers: Sequence[AskedPeer], clock: Clock, randomness: Randomness
) -> list[ClosedTunnel]:
    """Return the closed ports between the node with this address and its peers. Raises OSError."""
    if not peers:
        return []
    made = RawUdp(address)
    try:
        return await PortProbe(seals, made, peers, clock, randomness).run()
    finally:
        made.close()


class PortProbe:
    """One probe of several peers."""

    def __init__(
        self, seals: PortSeals, made: RawUdp, peers: Sequence[AskedPeer], clock: Clock, randomness: Randomness
    ) -> None:
        self._seals, self._made, self._clock = seals, made, clock
        self._peers = {each.key: each for each in peers}
        self._findings = {each.key: PortFindings() for each in peers}
        self._nonce = randomness.randbytes(8)  # of all requests: answers are sealed for this node by their senders

    async def run(self) -> list[ClosedTunnel]:
        """Ask until every port is known to be open, or until the timeout."""
        deadline, next_round = self._clock.monotonic() + TIMEOUT, 0.0
        while self._closed() and (now := self._clock.monotonic()) < deadline:
            if now >= next_round:
                next_round = now + _ROUND
                self._ask()
            await self._clock.sleep(_PAUSE)
            self._listen()
        return self._closed()

    def _ask(self) -> None:
        for key, peer in self._peers.items():
            if self._findings[key].closed(peer.port) is not None:
                self._ask_peer(peer)

    def _ask_peer(self, peer: AskedPeer) -> None:
        for arrival, back in itertools.product(PROBED_PORTS, repeat=2):
            now = int(self._clock.now())
            request = PortMessage(REQUEST, arrival, back, now, self._nonce, self._seals.public)
            source = ENCRYPTED_PORT if arrival == ENCRYPTED_PORT else _SOURCE
            with suppress(ValueError):  # a key that is none: the peer, and no other, counts as closed
                self._made.send(self._seals.sealed(request, peer.key), source, peer.address, arrival)

    def _listen(self) -> None:
        for arrival in self._made.received(_BURST):
            answer = self._seals.opened(arrival.content, self._peers)
            if answer and answer.kind == ANSWER and answer.nonce == self._nonce and answer.back == arrival.port:
                self._findings[answer.sender].record(answer)

    def _closed(self) -> list[ClosedTunnel]:
        found = [
            ClosedTunnel(peer.name, direction, peer.port)
            for key, peer in self._peers.items()
            if (direction := self._findings[key].closed(peer.port))
        ]
        return sorted(found)
