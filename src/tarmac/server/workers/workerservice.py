"""The paths that a worker serves to the other workers of its server.

GET  /held                 upgraded; one JSON line per change: nodes that connected or left, readiness
GET  /open/NODE/TOKEN      ask the node for a stream on the tunnel of this worker
GET  /stream/NODE/TOKEN    upgraded; a stream from the node that arrived at the caller and is awaited here
GET  /metrics, /usage/…    this worker's metrics
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote

import msgspec

from tarmac.base.clock import Clock
from tarmac.base.signals import Signal
from tarmac.base.tasks import Tasks
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tarmac.server.nodes.tunnels import NodeTunnels
from tarmac.server.workers.peers import POLL_INTERVAL, UPGRADE, WorkerNews, WorkerPeers
from tarmac.server.workers.sockets import WorkerSocket, socket_path

_encode = msgspec.json.Encoder().encode


class WorkerService:
    """Serves the other workers. `ready` returns this worker's readiness, `figures` its metrics by path.

    `tunnels_changed` is raised when a node gets its first tunnel here (True) or loses its last (False).
    """

    def __init__(
        self,
        peers: WorkerPeers,
        tunnels: NodeTunnels,
        tunnels_changed: Signal[[str, bool]],
        ready: Callable[[], bool],
        figures: Mapping[str, Callable[[], object]],
        clock: Clock,
    ) -> None:
        self._peers = peers
        self._tunnels = tunnels
        self._ready = ready
        self._figures = figures
        self._clock = clock
        self._listening: list[asyncio.Transport] = []
        self._was_ready = False
        tunnels_changed.subscribe(self._told)

    async def run(self) -> None:
        """Listen and keep links to the peers until cancelled."""
        listener = Listener(self._answer, ListenerLimits())
        await listener.start([], 0, None)
        door = WorkerSocket(socket_path(self._peers.folder, self._peers.index), listener)
        door.open()
        tasks = Tasks()
        try:
            tasks.begin(self._peers.run(), "links to workers")
            while True:
                self._tell_readiness()
                await self._clock.sleep(POLL_INTERVAL)
        finally:
            # In this order: no new link is accepted while the present ones end.
            door.close()
            await tasks.close()
            await listener.stop(grace=0.1)

    def states(self) -> dict[str, int]:
        """Return the number of processes that are ready, alive but unready, and missing."""
        others_alive, others_ready = self._peers.counts()
        ready, alive = others_ready + self._ready(), others_alive + 1
        return {"ready": ready, "unready": alive - ready, "missing": self._peers.count - alive}

    def _told(self, node: str, held: bool) -> None:
        self._send(WorkerNews(came=[node]) if held else WorkerNews(went=[node]))

    def _tell_readiness(self) -> None:
        now = self._ready()
        if now != self._was_ready:
            self._was_ready = now
            self._send(WorkerNews(ready=now))

    def _send(self, news: WorkerNews) -> None:
        self._listening = [each for each in self._listening if not each.is_closing()]
        line = _encode(news) + b"\n"
        for each in self._listening:
            each.write(line)

    # Requests from peers.

    def _answer(self, request: Request) -> Answer | Awaitable[Answer]:
        first, _, rest = request.path[1:].partition("/")
        node, _, token = rest.rpartition("/")
        if first == "held":
            return UpgradeResponse(lambda transport, _: self._begin(transport), _upgraded(UPGRADE))
        if first == "open":
            return Response(200 if self._tunnels.ask_here(unquote(node), token) else 404, b"")
        if first == "stream":
            # The worker that passes the stream on has authenticated its node (`NodeTunnels.answer`); this socket is
            # our user's only.
            return self._tunnels.arrived(unquote(node), token) or Response(404, b"")
        figures = self._figures.get(request.path)
        if figures is None:
            return Response(404, b"")
        found = figures()
        return _encoded_later(found) if isinstance(found, Awaitable) else Response(200, _encode(found))

    def _begin(self, transport: asyncio.Transport) -> None:
        transport.set_protocol(asyncio.Protocol())
        # Read the state here, in the step that adds the listener: a change between request and upgrade would be lost.
        transport.write(_encode(WorkerNews(came=self._tunnels.nodes(), ready=self._was_ready)) + b"\n")
        self._listening.append(transport)


async def _encoded_later(figures: Awaitable[object]) -> Answer:
    return Response(200, _encode(await figures))


def _upgraded(protocol: str) -> list[tuple[str, str]]:
    return [("Connection", "Upgrade"), ("Upgrade", protocol)]
