"""The transport to a server in the same process: no sockets, no copies, the same rules.

The composition root injects `handle`, which calls the API server with an identity already set, so an in-process call
passes authorization, admission and audit like any other. Handlers respond at once or with an awaitable; a response has
either a `body` or a `start` that takes the sending side of a stream.

A stream's sending side is a bounded buffer in this process: the server writes synchronously, the reader takes the
buffered chunks. Watch events are handed over as notices, with the very bytes the store holds, neither encoded nor
decoded. A reader that falls further behind than the bound is cut off, exactly as over a socket, and resumes from the
last resource version it saw.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote

from tarmac.base.clock import Clock
from tarmac.client.errors import Disconnected, RequestTimeout
from tarmac.client.transport import NO_HEADERS, ClientRequest, Reply, StreamReply, WatchNotice
from tarmac.client.turns import loop_budget

MAX_BUFFERED = 64 << 20

T = TypeVar("T")
TICK_INTERVAL = 0.1


# Timeouts of many short waits, kept by one slow timer instead of one timer each.
#
# Requests within a process take microseconds, and setting and clearing a timer for each would be a good part of that.
# An expired wait is cancelled at the next tick of the timer, so at most one tick late.


class CoarseTimeouts:
    """The waits of one loop. A task has at most one wait at a time, so the task is its key."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._ticking = False

    async def within(self, seconds: float, awaitable: Awaitable[T]) -> T:
        """Return the result. Raises TimeoutError when it does not arrive in time."""
        task = asyncio.current_task()
        assert task is not None, "only tasks can be cancelled"
        loop, cancelled_before = asyncio.get_running_loop(), task.cancelling()
        self._due[task] = loop.time() + seconds
        if not self._ticking:
            self._ticking = True
            loop.call_later(min(TICK_INTERVAL, seconds), self._tick, loop)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._take_back(task) and task.cancelling() <= cancelled_before:
                raise TimeoutError from None
            raise  # the task was cancelled by its owner, too
        finally:
            del self._due[task]
            self._take_back(task)  # the tick may have cancelled the task after its result arrived

    def _take_back(self, task: asyncio.Task[Any]) -> bool:
        """Return True if the task was cancelled from here, and undo that cancellation."""
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, due in self._due.items():
            if due <= now and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        self._ticking = bool(self._due)
        if self._ticking:
            loop.call_later(TICK_INTERVAL, self._tick, loop)


class LocalChunk(Protocol):
    """A chunk that many streams send."""

    @property
    def data(self) -> bytes:
        """The bytes, without any framing."""
        ...

    @property
    def notices(self) -> Sequence[WatchNotice]:
        """The watch events in it, if any."""
        ...

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        ...


class LocalSink(Protocol):
    """The sending side of a streamed response."""

    def write(self, data: bytes) -> bool:
        """Queue bytes; False once the reader has left or been cut off."""
        ...

    def write_chunk(self, chunk: LocalChunk) -> bool:
        """As `write`, for bytes that many watchers get: a chunk is encoded once."""
        ...

    def close(self) -> None:
        """End in an orderly way."""
        ...

    def abort(self) -> None:
        """End so that the reader knows that data is missing."""
        ...

    async def drained(self) -> None:
        """Wait until the reader has taken everything."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes the reader has not taken yet."""
        ...


class LocalAnswer(Protocol):
    """A complete response, as the server makes it. A streamed one has `start` in place of `body`."""

    @property
    def status(self) -> int:
        """HTTP status code."""
        ...

    @property
    def headers(self) -> list[tuple[str, str]] | None:
        """Headers beyond the content type."""
        ...


Handle = Callable[[str, str, str, Mapping[str, str], bytes], "LocalAnswer | Awaitable[LocalAnswer]"]


class LocalTransport:
    """Calls `handle(method, path, query, headers, body)` on the running loop.

    With `bounded`, requests wait for room in a loop iteration: for callers that send thousands in a row.
    """

    def __init__(self, handle: Handle, bounded: Clock | None = None) -> None:
        self._handle = handle
        self._bounded = bounded
        self._deadlines = CoarseTimeouts()

    async def request(self, request: ClientRequest) -> Reply:
        """Send one request. A response that is ready costs no task and no loop iteration."""
        method, path, query, headers, body, timeout = request
        if self._bounded is not None:
            await loop_budget(self._bounded).wait()
        answer = self._handle(method, _plain(path), query, headers, body)
        if inspect.isawaitable(answer):
            try:
                answer = await (answer if timeout is None else self._deadlines.within(timeout, answer))
            except TimeoutError as error:
                raise RequestTimeout(f"{method} {path}: no answer in {timeout} s") from error
        return _reply(answer)

    @asynccontextmanager
    async def stream(self, request: ClientRequest) -> AsyncGenerator[StreamReply]:
        """Open a stream; a complete response is returned as one chunk."""
        answer = self._handle(request.method, _plain(request.path), request.query, request.headers, b"")
        if inspect.isawaitable(answer):
            answer = await answer
        start: Callable[[LocalSink], Callable[[], None]] | None = getattr(answer, "start", None)
        if start is None:
            reply = _reply(answer)
            yield StreamReply(reply.status, reply.headers, _once(reply.body))
            return
        sink = _Sink()
        stop = start(sink)
        try:
            yield StreamReply(answer.status, _lower(answer.headers), sink.chunks())
        finally:
            sink.close()
            stop()

    async def close(self) -> None:
        """Do nothing: no connection is held open."""


class _Sink:
    """The buffer between the server's writes and the reader."""

    __slots__ = ("_chunks", "_cut", "_empty", "_ended", "_size", "_waiter")

    def __init__(self) -> None:
        self._chunks: deque[tuple[int, bytes | Sequence[WatchNotice]]] = deque()
        self._size = 0
        self._ended = False
        self._cut = False
        self._waiter: asyncio.Future[None] | None = None
        self._empty = asyncio.Event()

    @property
    def buffered(self) -> int:
        return self._size

    def write(self, data: bytes) -> bool:
        return self._put(len(data), data)

    def write_chunk(self, chunk: LocalChunk) -> bool:
        return self._put(chunk.size, chunk.notices or chunk.data)

    def _put(self, size: int, chunk: bytes | Sequence[WatchNotice]) -> bool:
        if self._ended:
            return False
        self._size += size
        if self._size > MAX_BUFFERED:
            self.abort()
            return False
        self._chunks.append((size, chunk))
        self._wake()
        return True

    def close(self) -> None:
        self._ended = True
        self._wake()
        self._empty.set()

    def abort(self) -> None:
        self._cut = True
        self._chunks.clear()
        self.close()

    async def drained(self) -> None:
        if self._chunks and not self._ended:
            self._empty.clear()
            await self._empty.wait()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def chunks(self) -> AsyncIterator[bytes | Sequence[WatchNotice]]:
        while True:
            while self._chunks:
                size, chunk = self._chunks.popleft()
                self._size -= size
                yield chunk
            self._empty.set()
            if self._cut:
                raise Disconnected("cut off: the server broke off, or was further ahead than the buffer may hold")
            if self._ended:
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._waiter = None


def _plain(path: str) -> str:
    return unquote(path) if "%" in path else path


def _reply(answer: LocalAnswer) -> Reply:
    body: bytes | list[bytes] = getattr(answer, "body", b"")
    return Reply(answer.status, _lower(answer.headers), body if isinstance(body, bytes) else b"".join(body))


def _lower(headers: list[tuple[str, str]] | None) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers} if headers else NO_HEADERS


async def _once(body: bytes) -> AsyncIterator[bytes | Sequence[WatchNotice]]:
    yield body
