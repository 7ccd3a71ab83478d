"""Writes this node's entry of BGPPeers: the state of its session. Each node writes its own, and no unchanged one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from tarmac.api.networking.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import rfc3339
from tarmac.client.client import Client
from tarmac.client.controller import Controller
from tarmac.client.targets.typed import BGP_PEERS


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a node reports of a session."""

    state: str
    announced: int = 0
    error: str = ""


class SessionStatusWriter:
    """Status writer of one node."""

    def __init__(self, client: Client, node: str) -> None:
        self._node, self._clock = node, client.clock
        self._peers = client.resource(BGP_PEERS.unread)
        self._wanted: dict[str, SessionState] = {}
        self._since: dict[str, float] = {}
        self._written: dict[str, SessionState] = {}
        self._controller = Controller(
            "bgp-status", self._write, clock=client.clock, randomness=client.randomness, workers=1
        )

    async def run(self) -> None:
        """Write entries, with retries, until cancelled."""
        await self._controller.run()

    def report(self, sessions: Mapping[str, SessionState]) -> None:
        """Report these sessions by peer, and withdraw the entries of all others."""
        for name in self._wanted.keys() | sessions.keys():
            before, now = self._wanted.get(name), sessions.get(name)
            if before != now:
                if now is None or before is None or before.state != now.state:
                    self._since[name] = self._clock.now()
                self._controller.queue.add(name)
        self._wanted = dict(sessions)

    async def _write(self, name: str) -> None:
        wanted = self._wanted.get(name)
        if wanted == self._written.get(name):
            return
        body: JsonObject = {
            "apiVersion": API_VERSION,
            "kind": "BGPPeer",
            "metadata": {"name": name},
            "status": {"nodes": [self._entry(name, wanted)] if wanted is not None else []},
        }
        with suppress(NotFound):  # just deleted
            await self._peers.apply(body, manager=f"node-{self._node}", subresource="status")
        # Only after success: the controller repeats a failed write, which must not be taken for a written one.
        if wanted is not None:
            self._written[name] = wanted
        else:
            self._written.pop(name, None)
            self._since.pop(name, None)

    def _entry(self, name: str, session: SessionState) -> JsonObject:
        entry: JsonObject = {"name": self._node, "state": session.state, "since": rfc3339(self._since[name])}
        entry["announced"] = session.announced
        return entry | ({"lastError": session.error[:1024]} if session.error else {})
