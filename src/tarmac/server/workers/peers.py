"""Links to the other workers of this server: their liveness and readiness, their nodes' tunnels, and requests to them.

A worker keeps one connection to `/held` of every other worker (`WorkerService`). While it is open, that worker is
alive; when it breaks, the nodes of that worker are forgotten too. The lowest worker alive does the work that must run
only once per host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.http.clientrequest import StreamedReply, request_head, send_request
from tarmac.http.messages import Answer
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.server.nodes.proxying import response_of
from tarmac.server.nodes.tunnels import STREAM
from tarmac.server.workers.sockets import socket_path, unix

UPGRADE = "tarmac-worker"
ANSWER_TIMEOUT = 1.0
STREAM_TIMEOUT = 5.0
PEER_TIMEOUT = 10.0  # seconds a peer may be missing or unready before this worker reports unready too
SETTLE_SECONDS = 1.0  # seconds without any lower worker before this one takes over their work
POLL_INTERVAL = 0.5
_RETRY_INTERVAL = 0.1
_MAX_METRICS = 256 * 1024 * 1024
_MAX_LINE = 64 * 1024 * 1024

_log = log("workers")


class WorkerNews(msgspec.Struct, omit_defaults=True):
    """One line at `/held`."""

    came: list[str] = []
    went: list[str] = []
    ready: bool | None = None


_decode = msgspec.json.Decoder(WorkerNews).decode
_decode_any = msgspec.json.Decoder().decode


class _Link:
    """The last reported state of one peer."""

    def __init__(self, now: float) -> None:
        self.alive = False
        self.ready = False
        self.since = now  # when it was last alive, or when this process started
        self.unready_since: float | None = now
        self.nodes: set[str] = set()

    def hear(self, news: WorkerNews, now: float) -> None:
        # Additions first: a line may report a node that came and went since the last one.
        self.nodes |= {*news.came}
        self.nodes -= {*news.went}
        if news.ready is not None:
            self.ready = news.ready
            self.unready_since = None if news.ready else (self.unready_since or now)

    def lose(self, now: float) -> None:
        self.alive = self.ready = False
        self.nodes = set()
        self.since = now
        self.unready_since = self.unready_since or now


class WorkerPeers:
    """The other workers of this server. Implements `nodes.tunnels.OtherWorkers`."""

    def __init__(self, folder: Path, index: int, count: int, clock: Clock) -> None:
        self.index = index
        self.count = count
        self.folder = folder
        self._clock = clock
        # Every peer counts as alive until `SETTLE_SECONDS` have passed: workers that start together would all be the
        # lowest.
        self._links = {other: _Link(clock.monotonic()) for other in range(count) if other != index}

    async def run(self) -> None:
        """Keep a link to every other worker until cancelled."""
        tasks = Tasks()
        try:
            for other in self._links:
                tasks.begin(self._keep(other), f"link to worker {other}")
            await asyncio.Event().wait()
        finally:
            await tasks.close()

    # State of the peers.

    def holder(self, node: str) -> int | None:
        """Return the other worker that the node has a tunnel to, or None."""
        return next((other for other, link in self._links.items() if node in link.nodes), None)

    @property
    def is_lowest(self) -> bool:
        """True if no lower worker has been alive for `SETTLE_SECONDS` seconds."""
        now = self._clock.monotonic()
        below = [link for other, link in self._links.items() if other < self.index]
        return not any(link.alive or now - link.since < SETTLE_SECONDS for link in below)

    async def until_lowest(self, lowest: bool) -> None:
        """Wait until this worker is the lowest alive, or until it no longer is."""
        while self.is_lowest != lowest:
            await self._clock.sleep(POLL_INTERVAL)

    def lowest(self) -> int:
        """Return the lowest worker alive."""
        return min([self.index, *(other for other, link in self._links.items() if link.alive)])

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """Return a readiness check for each peer."""
        return {f"worker-{other}": lambda link=link: self._trouble(link) for other, link in self._links.items()}

    def _trouble(self, link: _Link) -> str | None:
        since = link.unready_since
        away = since is not None and self._clock.monotonic() - since > PEER_TIMEOUT
        return f"not ready for {PEER_TIMEOUT:g} s and more" if away else None

    def counts(self) -> tuple[int, int]:
        """Return the number of other workers that are alive, and of those that are ready."""
        links = self._links.values()
        return sum(link.alive for link in links), sum(link.ready for link in links)

    # Requests to peers.

    async def ask(self, worker: int, node: str, token: str) -> None:
        """Have `worker` ask the node for a stream on its tunnel. Raises OSError."""
        reply = await self._reach(worker, f"/open/{quote(node, safe='')}/{token}", ANSWER_TIMEOUT)
        reply.close()
        if reply.status != 200:
            raise ConnectionError("the tunnel has just been lost")

    async def stream(self, worker: int, node: str, token: str) -> Answer:
        """Pass a node's stream on to the worker that awaits it. Raises NotFound if it does not."""
        target, headers = f"/stream/{quote(node, safe='')}/{token}", [("Connection", "Upgrade"), ("Upgrade", STREAM)]
        try:
            reply = await self._reach(worker, target, STREAM_TIMEOUT, headers)
        except OSError as error:
            raise NotFound("nobody asked for this stream", details={}) from error
        if reply.status != 101:
            reply.close()
            raise NotFound("nobody asked for this stream", details={})
        # From here the response owns the connection, and its `abandon` closes it.
        return response_of(reply)

    async def gathered(self, what: str) -> dict[int, Any]:
        """Fetch a path from every live peer; peers that do not answer in time are left out."""
        # A snapshot: links may be lost while the answers are awaited.
        others = [other for other, link in self._links.items() if link.alive]
        found = await asyncio.gather(*(self._fetched(other, what) for other in others))
        return {other: each for other, each in zip(others, found, strict=True) if each is not None}

    async def usage(self, what: str) -> Sequence[JsonObject]:
        """Return the measurements of the lowest worker alive."""
        return await self._fetched(self.lowest(), f"/usage/{what}") or ()

    async def _fetched(self, worker: int, what: str) -> Any:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                reply = await self._reach(worker, what, ANSWER_TIMEOUT, [("Connection", "close")])
                return _decode_any(await reply.read(_MAX_METRICS))
        # TimeoutError is an OSError: a peer that hangs is left out like one that is gone.
        except (OSError, ConnectionBroken, msgspec.MsgspecError) as error:
            _log.debug("request to worker failed", worker=worker, error=str(error))
            return None

    async def _reach(
        self, worker: int, target: str, seconds: float, headers: Sequence[tuple[str, str]] = ()
    ) -> StreamedReply:
        """Send a request to a worker. Raises OSError."""
        try:
            dial = unix(socket_path(self.folder, worker))
            return await send_request(dial, request_head("GET", target, "worker", headers), seconds)
        except ConnectionBroken as error:
            raise ConnectionError(str(error)) from error

    # Links to peers.

    async def _keep(self, other: int) -> None:
        link = self._links[other]
        while True:
            try:
                await self._follow(other, link)
            except OSError:
                pass
            except (ConnectionBroken, msgspec.MsgspecError) as error:
                _log.warning("invalid message from worker", worker=other, error=str(error))
            if link.alive:
                _log.info("connection to worker lost", worker=other)
                # Its tunnels are forgotten at once: streams requested from a dead worker would only time out.
                link.lose(self._clock.monotonic())
            await self._clock.sleep(_RETRY_INTERVAL)

    async def _follow(self, other: int, link: _Link) -> None:
        headers = [("Connection", "Upgrade"), ("Upgrade", UPGRADE)]
        reply = await self._reach(other, "/held", ANSWER_TIMEOUT, headers)
        if reply.status != 101:
            reply.close()
            return
        hearing = _Hearing(*reply.detach(), lambda news: link.hear(news, self._clock.monotonic()))
        # Only now: news that arrived with the upgrade is heard before the link counts as alive.
        link.alive = True
        try:
            await hearing.lost
        finally:
            # Also on cancellation: the peer would go on sending to a worker that has stopped.
            hearing.close()


class _Hearing(asyncio.Protocol):
    """Reads lines of news. `lost` is done when the connection is closed."""

    def __init__(self, transport: asyncio.Transport, rest: bytes, hear: Callable[[WorkerNews], None]) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport = transport
        self._hear = hear
        self._rest = b""
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                self._hear(_decode(line))
        except msgspec.MsgspecError as error:
            self._end(error)
        # Only processes of our own user get here (`sockets.unix`): the limit bounds mistakes, not attacks.
        if len(self._rest) > _MAX_LINE:
            self._end(ConnectionBroken("a line without an end"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._transport.abort()
        # A malformed line ends the link, and `connection_lost` follows: the first reason counts.
        if self.lost.done():
            return
        if error is None:
            self.lost.set_result(None)
        else:
            self.lost.set_exception(error)
