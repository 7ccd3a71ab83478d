"""Announces public addresses by BGP: keeps the sessions and routes of this node as wanted, and reports on both.

An address counts as announced while a route for it exists and a router of its pool has an established session. The
speaker is asked every second while there is a session to keep, and not at all without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tarmac.agent.ingress.sessions import CompiledSpeaker
from tarmac.agent.ingress.sessionwriter import SessionState, SessionStatusWriter
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.speaker import ESTABLISHED, BgpSession, SessionReport, Speaker
from tarmac.decide import reasons

INTERVAL: Final = 1.0
_PAUSE: Final = 0.05
_FAREWELL: Final = 1.0
_CONNECTING: Final = "Active"
_MISSING: Final = "the node has no bird: install bird2"

_log = log("ingress")


@dataclass(frozen=True, slots=True)
class RouteAnnouncement:
    """An announced address: since when, and to which BGPPeers."""

    since: float
    peers: tuple[str, ...]


class RouteAnnouncer:
    """Announcer of one node. `moved` is called with each address that begins or ceases to be announced."""

    def __init__(
        self, speaker: Speaker, writer: SessionStatusWriter, clock: Clock, moved: Callable[[str], None]
    ) -> None:
        self._speaker, self._writer, self._clock, self._moved = speaker, writer, clock, moved
        self.announced: dict[str, RouteAnnouncement] = {}
        self.sessions: dict[str, SessionState] = {}  # by peer
        self._compiled = CompiledSpeaker()
        self._pools: Mapping[str, str] = {}  # of routed addresses
        self._wanted: frozenset[str] = frozenset()
        self._reports: Mapping[str, SessionReport] = {}
        self._problem = ""
        self._busy = asyncio.Event()
        self._lock = asyncio.Lock()

    async def keep_only(self, addresses: Collection[str]) -> None:
        """Withdraw all addresses but these, before their rules go."""
        async with self._lock:
            self._wanted &= frozenset(addresses)
            await self._try(lambda: self._speaker.keep_only(addresses))
            self._report()

    async def ensure(self, compiled: CompiledSpeaker, pools: Mapping[str, str], addresses: Collection[str]) -> None:
        """Have these sessions, and announce these addresses. `pools` has the pool of each routed address."""
        async with self._lock:
            self._compiled, self._pools, self._wanted = compiled, pools, frozenset(addresses)
            await self._apply()
            self._report()
        if self._has_peers:
            self._busy.set()

    async def withdraw(self) -> None:
        """Withdraw all addresses, and wait until the routers have been told, for a limited time."""
        if not self._compiled.state.sessions:
            return
        async with self._lock:
            self._wanted = frozenset()
            await self._try(lambda: self._speaker.announce(()))
        until = self._clock.monotonic() + _FAREWELL
        while self._clock.monotonic() < until:
            if not any(each.announced for each in (await self._speaker.reports()).values()):
                return
            await self._clock.sleep(_PAUSE)

    async def run(self) -> None:
        """Keep the speaker running and report its sessions, until cancelled."""
        while True:
            await self._busy.wait()
            async with self._lock:
                if self._problem:
                    await self._apply()
                else:
                    await self._try(self._speaker.check)
                self._reports = await self._speaker.reports()
                self._report()
                if not self._has_peers:
                    self._busy.clear()
            await self._clock.sleep(INTERVAL)

    def reason(self, address: str) -> str:
        """Return the reason why a routed address with endpoints is not announced."""
        peers = self._compiled.peers.get(self._pools.get(address, ""), ())
        if not peers:
            return reasons.NO_PEER
        if not self._speaker.available:
            return reasons.SPEAKER_MISSING
        up = [each for each in peers if self._is_established(each)]
        return reasons.TOO_MANY_PREFIXES if up else reasons.SESSION_DOWN

    @property
    def _has_peers(self) -> bool:
        return bool(self._compiled.state.sessions or self._compiled.errors)

    async def _apply(self) -> None:
        if await self._try(lambda: self._speaker.ensure(self._compiled.state)):
            await self._try(lambda: self._speaker.announce(self._wanted))

    async def _try(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Return True if it succeeded. After a failure everything is applied again within a second."""
        try:
            await work()
        except Exception as error:  # sessions fail by themselves: rules and leases must not wait for them
            problem = str(error) or repr(error)
            if problem != self._problem:
                _log.warning("BGP speaker failed, retrying", why=problem)
            self._problem = problem
            return False
        self._problem = ""
        return True

    def _is_established(self, peer: str) -> bool:
        found = self._reports.get(peer)
        return found is not None and found.state == ESTABLISHED

    def _report(self) -> None:
        """Report sessions, and tell which addresses are announced now."""
        self.sessions = {each.name: self._state(each) for each in self._compiled.state.sessions}
        self.sessions |= {name: SessionState(_CONNECTING, 0, why) for name, why in self._compiled.errors.items()}
        self._writer.report(self.sessions)
        before, now = self.announced, self._clock.now()
        self.announced = {
            address: RouteAnnouncement(before[address].since if address in before else now, peers)
            for address in self._wanted
            if (peers := self._informed_peers(address))
        }
        for address in {*before, *self._wanted}:
            old, new = before.get(address), self.announced.get(address)
            if old != new or new is None:
                self._moved(address)

    def _state(self, session: BgpSession) -> SessionState:
        if not self._speaker.available:
            return SessionState(reasons.SPEAKER_MISSING, 0, _MISSING)
        found = self._reports.get(session.name)
        if found is None:
            return SessionState(_CONNECTING, 0, self._problem)
        # BGP's other states follow each other every few seconds, and each would be a write.
        state = found.state if found.state == ESTABLISHED else _CONNECTING
        return SessionState(state, found.announced if state == ESTABLISHED else 0, found.error or self._problem)

    def _informed_peers(self, address: str) -> tuple[str, ...]:
        """Return the peers that have been told about an address."""
        peers = self._compiled.peers.get(self._pools.get(address, ""), ())
        return tuple(each for each in peers if self._is_established(each) and self._passes(each, address))

    def _passes(self, peer: str, address: str) -> bool:
        """Return True if a session exchanges routes of the address's family, and this one is not withheld."""
        session = next((each for each in self._compiled.state.sessions if each.name == peer), None)
        exported = self._reports[peer].exported
        if session is None or (6 if ":" in address else 4) not in session.families:
            return False
        return exported is None or address in exported
