"""The connection of one process to the server: it has latency, loses messages, breaks, and can be severed.

A `ServerLink` wraps the in-process transport, so every request of a simulated controller or node passes through it. A
write may be rejected with a spurious conflict, be lost before the server, take effect although its response is lost, or
take longer than the sender's timeout. A watch breaks after a while. `sever` ends the process behind the link: nothing
it still tries has any effect, which is how a crash differs from a cancelled task. `mute` is a temporary disconnection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from math import inf, log

from tarmac.api.status import conflict
from tarmac.client.errors import Disconnected, RequestTimeout
from tarmac.client.transport import NO_HEADERS, Chunks, ClientRequest, Reply, StreamReply, Transport
from tarmac.sim.faults.draws import CONFLICT, LOST_ANSWER, LOST_REQUEST, SLOW_WRITE, WATCH_DROP, FaultInjector

_READS = frozenset(("GET", "HEAD", "OPTIONS"))
_LATENCY = (0.0002, 0.004)


class ServerLink:
    """The connection of one process to the server."""

    def __init__(self, inner: Transport, luck: FaultInjector) -> None:
        self.requests = 0
        self._inner = inner
        self._luck = luck
        self._severed = False
        self._muted = False
        self._trap: tuple[int, bool, Callable[[], None]] | None = None
        self._open: dict[int, asyncio.Timeout] = {}
        self._streams = 0

    def sever(self) -> None:
        """Cut the connection for good: the process has crashed."""
        self._severed = True
        self._break_streams()

    def mute(self, muted: bool) -> None:
        """Disconnect, or connect again."""
        self._muted = muted
        if muted:
            self._break_streams()

    def crash_at(self, request: int, answered: bool, crash: Callable[[], None]) -> None:
        """Call `crash` at the request with this number, before it is sent or after it has taken effect."""
        self._trap = (request, answered, crash)

    def disarm(self) -> None:
        """Cancel an armed crash."""
        self._trap = None

    async def request(self, request: ClientRequest) -> Reply:
        """Send a request, subject to faults."""
        self.requests += 1
        self._spring(False)
        self._check()
        await asyncio.sleep(self._luck.randomness.uniform(*_LATENCY))
        self._check()
        send = self._inner.request if request.method in _READS else self._write
        reply = await send(request)
        self._spring(True)
        self._check()
        return reply

    async def _write(self, request: ClientRequest) -> Reply:
        luck, odds, what = self._luck, self._luck.odds, f"{request.method} {request.path}"
        if request.method in ("PUT", "PATCH") and luck.strikes(CONFLICT, odds.conflict):
            refusal = conflict("", "objects", request.path.rpartition("/")[2], "the object has been modified")
            return Reply(409, NO_HEADERS, refusal.encoded())
        if luck.strikes(LOST_REQUEST, odds.lost_request):
            raise Disconnected(f"{what}: lost on the way")
        if luck.strikes(SLOW_WRITE, odds.slow):
            await self._dawdle(request.timeout, what)
        reply = await self._inner.request(request)
        if luck.strikes(LOST_ANSWER, odds.lost_answer):
            raise Disconnected(f"{what}: the answer was lost")
        return reply

    async def _dawdle(self, timeout: float | None, what: str) -> None:
        """Delay the write. If the sender's timeout ends first, nothing is written. Raises RequestTimeout."""
        delay = self._luck.randomness.uniform(*self._luck.odds.delay)
        await asyncio.sleep(min(delay, timeout or inf))
        if timeout is not None and delay >= timeout:
            raise RequestTimeout(f"{what}: no answer in {timeout} s")
        self._check()

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        """Open a stream that breaks after a while."""
        self._check()
        await asyncio.sleep(self._luck.randomness.uniform(*_LATENCY))
        self._check()
        async with self._inner.stream(request) as reply:
            yield StreamReply(reply.status, reply.headers, self._until_it_breaks(reply.chunks))

    async def close(self) -> None:
        """Do nothing: no connection is held open."""

    async def _until_it_breaks(self, chunks: Chunks) -> Chunks:
        self._streams += 1
        number, end = self._streams, self._lifetime()
        while True:
            try:
                async with asyncio.timeout_at(end) as deadline:
                    self._open[number] = deadline
                    chunk = await anext(chunks, None)
            except TimeoutError:
                if self._luck.on and not (self._severed or self._muted):
                    self._luck.hits[WATCH_DROP] += 1
                raise Disconnected("the watch broke") from None
            finally:
                self._open.pop(number, None)
            if chunk is None:
                return
            yield chunk

    def _lifetime(self) -> float | None:
        """Return the time at which a new stream breaks: exponentially distributed, or never."""
        if not self._luck.on:
            return None
        draw = self._luck.randomness.uniform(1e-9, 1)
        return asyncio.get_running_loop().time() - self._luck.odds.watch_seconds * log(draw)

    def _break_streams(self) -> None:
        now = asyncio.get_running_loop().time()
        for deadline in self._open.values():
            deadline.reschedule(now)

    def _check(self) -> None:
        if self._severed or self._muted:
            raise Disconnected("no connection")

    def _spring(self, answered: bool) -> None:
        if self._trap is not None and self.requests >= self._trap[0] and self._trap[1] is answered:
            crash = self._trap[2]
            self._trap = None
            crash()
