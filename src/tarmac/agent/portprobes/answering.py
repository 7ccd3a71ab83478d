"""Answers the port probes of nodes that have just joined.

The socket is open for two minutes after the agent starts and after another node appears, and closed otherwise. Only
requests with a valid seal of a known node have an answer; it is one datagram of the same length, to an address of that
node, so the agent is of no use for reflection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn

from tarmac.agent.portprobes.portmessages import (
    MAX_AGE,
    PROBED_PORTS,
    REQUEST,
    PortMessage,
    PortSeals,
    answer_to,
    key_of,
)
from tarmac.agent.portprobes.rawudp import RawDatagram, RawUdp
from tarmac.api.networking.ports import ENCRYPTED_PORT
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness

OPEN_SECONDS: Final = 120.0
CHECK_INTERVAL: Final = 1.0
_PAUSE: Final = 0.1
_BURST: Final = 32
_FIRST_EPHEMERAL: Final = 49152

_log = log("network")


class PortAnswers:
    """The answering end of one node. `endpoints` are those of all nodes by name."""

    def __init__(
        self,
        endpoints: Callable[[], Mapping[str, TunnelEndpoint]],
        addresses: Callable[[], Sequence[str]],
        seals: PortSeals,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._endpoints, self._addresses = endpoints, addresses
        self._seals, self._clock, self._randomness = seals, clock, randomness
        self._known: Mapping[bytes, TunnelEndpoint] = {}
        self._until = clock.monotonic() + OPEN_SECONDS
        self._failed = False  # logged once

    async def run(self) -> NoReturn:
        """Answer until cancelled."""
        while True:
            self._follow()
            if self._clock.monotonic() < self._until and (addresses := self._addresses()):
                await self._open(addresses[0])
            await self._clock.sleep(CHECK_INTERVAL)

    def _follow(self) -> None:
        """Learn the keys of the other nodes; a new one opens the socket."""
        found = {key: each for each in self._endpoints().values() if (key := key_of(each.public_key))}
        if found.keys() - self._known.keys() - {self._seals.public}:
            self._until = self._clock.monotonic() + OPEN_SECONDS
        self._known = found

    async def _open(self, address: str) -> None:
        try:
            made = RawUdp(address)
        except OSError as error:
            if not self._failed:
                _log.warning("port probes of other nodes are not answered", error=str(error))
            self._failed = True
            return
        follow_at = 0.0
        try:
            while (now := self._clock.monotonic()) < self._until and self._addresses()[:1] == [address]:
                if now >= follow_at:
                    follow_at = now + CHECK_INTERVAL
                    self._follow()
                # A limited number in each turn: a host that floods the socket gets no more of the event loop.
                for arrival in made.received(_BURST):
                    self._answer(made, arrival)
                await self._clock.sleep(_PAUSE)
        finally:
            made.close()

    def _answer(self, made: RawUdp, arrival: RawDatagram) -> None:
        request = self._seals.opened(arrival.content, self._known)
        if request is None or not self._is_fresh(request, arrival):
            return
        content = self._seals.sealed(answer_to(request, self._seals.public), request.sender)
        if request.back == request.arrival == ENCRYPTED_PORT:
            # As WireGuard answers: to the source of the packet, which may be the address of a NAT.
            made.send(content, ENCRYPTED_PORT, arrival.address, arrival.source)
            return
        six = ":" in arrival.address
        if to := next((each for each in self._known[request.sender].addresses if (":" in each) == six), ""):
            # As VXLAN sends: from a port that no firewall has a connection for.
            source = request.back if request.back == ENCRYPTED_PORT else self._ephemeral()
            made.send(content, source, to, request.back)

    def _is_fresh(self, request: PortMessage, arrival: RawDatagram) -> bool:
        """Return False for answers, for requests that were sent to another port, and for recorded ones."""
        is_request = request.kind == REQUEST and request.back in PROBED_PORTS and request.arrival == arrival.port
        return is_request and abs(self._clock.now() - request.time) <= MAX_AGE

    def _ephemeral(self) -> int:
        return _FIRST_EPHEMERAL + int.from_bytes(self._randomness.randbytes(2)) % (65536 - _FIRST_EPHEMERAL)
