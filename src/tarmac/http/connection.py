"""One client connection: takes requests from the reader in order, calls the handler, sends the answer.

At most one request is being answered at a time (`_current`); pipelined ones wait in the reader. A handler that answers
at once costs no task. One that must wait gets one; when its client goes away, or its time is up, the task is cancelled
if it only reads, and runs to its end unheard if it writes, because a write that has been accepted must not be torn.

Deadlines are not timers: the listener looks at every connection once per interval and calls `check`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Protocol, cast

from tarmac.api.status import ApiError, InternalError, ServiceUnavailable, Timeout
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.http.compression import accepts_gzip, gzip
from tarmac.http.limits import Backlogs, ListenerLimits, Shares
from tarmac.http.messages import Answer, Handler, Request, Response, StreamResponse, UpgradeResponse
from tarmac.http.reading import Phase, RequestReader
from tarmac.http.responseheads import CONTINUE, Heads, UnsendableHeader
from tarmac.http.streams import ConnectionStream
from tarmac.http.unauthenticated import Strangers

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_JOINED = 64 * 1024  # up to here head and body are copied together: one record, one system call
_SLICE = 256 * 1024  # larger bodies go out in slices, so that a slow client holds no second, encrypted copy of them
_log = log("http")


class Shared(Protocol):
    """What the connections of one listener have in common."""

    handler: Handler
    limits: ListenerLimits
    knows: Callable[[Request], bool] | None
    shares: Shares
    strangers: Strangers[ServerConnection]
    backlogs: Backlogs
    heads: Heads
    loop: asyncio.AbstractEventLoop
    stopping: bool
    connections: set[ServerConnection]
    tasks: Tasks
    upgraded: set[asyncio.Transport]

    def settle(self) -> None:
        """Something ended while stopping."""
        ...


class ServerConnection(asyncio.Protocol):
    """Protocol of one accepted socket."""

    __slots__ = (
        "_accepted",
        "_current",
        "_paused",
        "_pausing",
        "_reader",
        "_refused",
        "_shared",
        "_slices",
        "_stream",
        "_task",
        "_transport",
        "_write_since",
    )

    def __init__(self, shared: Shared, accepted: socket.socket | None = None) -> None:
        self._shared = shared
        self._accepted = accepted  # until the handshake is done
        self._reader = RequestReader(shared.limits, shared.loop.time, shared.shares, shared.knows)
        self._transport = cast("asyncio.Transport", None)
        self._current: Request | None = None
        self._task: asyncio.Future[Answer] | None = None
        self._stream: ConnectionStream | None = None
        self._slices: Iterator[bytes | memoryview] | None = None  # what is left of a large body
        self._paused = False  # the client does not take what we send
        self._pausing = False  # we do not take what the client sends
        self._write_since = 0.0
        self._refused = False

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._accepted = None
        self._shared.connections.add(self)
        peer = transport.get_extra_info("peername")
        self._reader.peer_address = str(peer[0]) if peer else ""
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self._reader.peer_certificate = tls.getpeercert(True)
            if self._reader.peer_certificate is not None:
                self.recognise()

    @property
    def peer_certificate(self) -> bytes | None:
        """The client's certificate (DER), if it has shown one."""
        return self._reader.peer_certificate

    def recognise(self) -> None:
        """The client has shown who it is."""
        self._reader.known = True
        self._shared.strangers.discard(self)

    def eof_received(self) -> None:
        """The client sends no more, and over TLS it takes no more: whatever is written now only fills the log.

        What it has asked for and what has not begun is forgotten; a write that has begun goes on.
        """
        self._reader.close()
        self._slices = None
        if self._stream is not None:
            self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.discard(self)
        self._shared.strangers.discard(self)
        self._reader.close()
        self._slices = None
        if self._stream is not None:
            self._stream.abort()
        self._abandon_task()
        if self._shared.stopping:
            self._shared.settle()

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        if reader.ready:
            self._advance()
            if len(reader.ready) > self._shared.limits.pipeline:
                self._stop_reading()
        elif reader.rest is not None:
            if len(reader.rest) > self._shared.limits.head:
                self._stop_reading()
        elif reader.expects_continue and self._current is None:
            reader.expects_continue = False
            self._transport.write(CONTINUE)

    def _stop_reading(self) -> None:
        """Until what has come is taken: requests in their turn, what follows an upgrade by whoever upgrades."""
        if not self._pausing:
            self._pausing = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._pausing and not self._transport.is_closing():
            self._pausing = False
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._paused = True
        self._write_since = self._shared.loop.time()
        if self._stream is not None:
            self._stream.pause(True)

    def resume_writing(self) -> None:
        self._paused = False
        if self._stream is not None:
            self._stream.pause(False)
        elif self._slices is not None:
            self._send_slices()
        else:
            self._advance()

    # Requests in order.

    def _advance(self) -> None:
        ready = self._reader.ready
        while ready and self._current is None and not self._paused:
            item = ready.popleft()
            if type(item) is Request:
                self._current = item
                self._answer_with(self._call(item))
            else:
                self._refuse(cast("ApiError", item))
        if not ready and self._reader.rest is None:
            self._read_on()

    def _call(self, request: Request) -> Answer | Awaitable[Answer]:
        try:
            return self._shared.handler(request)
        except Exception as error:
            end_if_out_of_memory(error)
            return _failure(error)

    def _answer_with(self, answer: Answer | Awaitable[Answer]) -> None:
        if not self._reader.known and self._current is not None and self._current.known:
            self.recognise()
        try:
            if isinstance(answer, Response):
                self._respond(answer)
            elif isinstance(answer, StreamResponse):
                self._start_stream(answer)
            elif isinstance(answer, UpgradeResponse):
                self._upgrade(answer)
            else:
                self._wait_for(answer)
        except UnsendableHeader as error:  # found before anything was written
            self._respond(_failure(error))

    def _wait_for(self, answer: Awaitable[Answer]) -> None:
        self._task = self._shared.tasks.promise(answer, "request", self._waited)

    def _waited(self, task: asyncio.Future[Answer]) -> None:
        self._shared.tasks.over(task)
        if task.cancelled():
            answer: Answer = _status(ServiceUnavailable("the server is shutting down"))
        else:
            error = task.exception()
            answer = task.result() if error is None else _failure(error)
        if task is self._task:  # else the client has gone, or has been told that it took too long
            self._task = None
            self._reader.since = self._shared.loop.time()
            self._answer_with(answer)
            self._advance()
        elif not isinstance(answer, Response) and answer.abandon is not None:
            answer.abandon()
        if self._shared.stopping:
            self._shared.settle()

    def _abandon_task(self) -> None:
        # Forgotten before it is cancelled: `_waited`, which is called in any case, then knows that nobody listens.
        # A write is never cancelled, as the store may have accepted it already.
        task, self._task = self._task, None
        if task is not None and self._current is not None and self._current.method in _READS:
            task.cancel()

    def _finished(self) -> None:
        """The answer to the current request is with the transport, whole."""
        self._current = None
        reader = self._reader
        if (reader.last or self._shared.stopping) and not reader.ready:
            self._transport.close()

    # Whole answers.

    def _respond(self, response: Response) -> None:
        request = cast("Request", self._current)
        body = response.body
        length = len(body) if isinstance(body, bytes) else sum(map(len, body))
        if length >= self._shared.limits.gzip_from and accepts_gzip(request.headers) and not _is_encoded(response):
            self._compress(response, length)
            return
        head = self._head(response.status, response.content_type, response.headers)
        head += b"\r\n" if response.status == 204 else b"Content-Length: %d\r\n\r\n" % length
        if request.method == "HEAD" or not length:
            self._transport.write(head)
        elif length <= _JOINED:
            self._transport.write(head + body if isinstance(body, bytes) else b"".join((head, *body)))
        else:
            self._transport.write(head)
            self._slices = _slices(body, length)
            self._send_slices()
            return
        self._finished()

    def _head(self, status: int, content_type: str, headers: list[tuple[str, str]] | None) -> bytes:
        head = self._shared.heads.block(status, content_type, headers or ())
        reader, request = self._reader, self._current
        if request is not None and request.audit_id:
            head += b"Audit-Id: %b\r\n" % request.audit_id.encode()
        if (reader.last or self._shared.stopping) and not reader.ready:
            head += b"Connection: close\r\n"
        elif reader.http10:
            head += b"Connection: keep-alive\r\n"
        return head

    def _send_slices(self) -> None:
        slices = self._slices
        while slices is not None and not self._paused:
            piece = next(slices, None)
            if piece is None:
                self._slices = slices = None
                self._finished()
                # Not at once: `_advance` may have called this, and pipelined answers would stack up its frames.
                self._shared.loop.call_soon(self._advance)
            else:
                self._transport.write(piece)  # may call `pause_writing`, which ends this loop

    def _compress(self, response: Response, length: int) -> None:
        def compressed() -> Response:
            headers = [*(response.headers or ()), ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
            return Response(response.status, gzip(response.body), response.content_type, headers)

        if length <= self._shared.limits.gzip_inline:
            self._respond(compressed())
        else:
            self._wait_for(self._shared.loop.run_in_executor(None, compressed))

    # Streams and upgrades.

    def _start_stream(self, answer: StreamResponse) -> None:
        reader = self._reader
        if reader.http10:
            reader.last = True  # without chunks, only closing the connection can end the body
        head = self._head(answer.status, answer.content_type, answer.headers)
        head += b"\r\n" if reader.http10 else b"Transfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head)
        stream = ConnectionStream(self._transport, self._shared.backlogs, not reader.http10, self._stream_over)
        stream.pause(self._paused)
        self._stream = stream
        try:
            # `start` may write so much, or to a client so gone, that the stream is over before what ends it is known.
            stream.started(answer.start(stream))
        except Exception as error:
            end_if_out_of_memory(error)
            _log.error("stream could not start", error=repr(error))
            stream.abort()

    def _stream_over(self, orderly: bool) -> None:
        self._stream = None
        self._reader.since = self._shared.loop.time()
        if not orderly:
            self._transport.abort()
            return
        self._finished()
        self._shared.loop.call_soon(self._advance)

    def _upgrade(self, answer: UpgradeResponse) -> None:
        reader, transport = self._reader, self._transport
        if reader.rest is None:
            if answer.abandon is not None:
                answer.abandon()
            self._respond(_failure(RuntimeError("upgrade of a request that did not ask for it")))
            return
        head = self._shared.heads.block(101, "", answer.headers or ())
        transport.write(head + b"\r\n")
        # From here on the transport is somebody else's, and no deadline of ours may close it.
        rest, reader.rest = reader.rest, None
        self._shared.connections.discard(self)
        self._shared.strangers.discard(self)
        self._shared.upgraded.add(transport)
        self._read_on()
        answer.start(transport, rest)

    # Refusals, deadlines, the end.

    def _refuse(self, error: ApiError) -> None:
        """Answer what could not be read as a request, then let the client finish sending, or it would never read it."""
        response = _status(error)
        head = self._shared.heads.block(response.status, response.content_type, error.headers or ())
        body = cast("bytes", response.body)
        head = b"%bConnection: close\r\nContent-Length: %d\r\n\r\n" % (head, len(body))
        self._transport.write(head + body)
        self._refused = True
        self._reader.since = self._shared.loop.time()

    def check(self, now: float) -> None:
        """Enforce the deadline of whatever is going on."""
        limits, reader = self._shared.limits, self._reader
        waited = now - reader.since
        if self._paused and self._stream is None and now - self._write_since > limits.write_time:
            self._transport.abort()
        elif self._task is not None:
            if waited > limits.answer_time:
                self._give_up()
        elif self._stream is not None or self._slices is not None:
            pass
        elif waited > self._patience(limits):
            self._transport.abort() if reader.phase is not Phase.IDLE else self._transport.close()

    def _patience(self, limits: ListenerLimits) -> float:
        if self._refused:
            return limits.linger_time
        if self._reader.phase is Phase.HEAD:
            return limits.head_time
        return limits.body_time if self._reader.phase is Phase.BODY else limits.idle_time

    def _give_up(self) -> None:
        self._abandon_task()
        self._reader.close()
        self._respond(_status(Timeout("Timeout: request did not complete within the allotted timeout")))

    def stop(self) -> None:
        """End as soon as what is under way allows; watchers see an orderly end of their stream."""
        if self._stream is not None:
            self._stream.close()
        elif self._current is None and not self._reader.ready:
            self._transport.close()

    @property
    def idle_since(self) -> float | None:
        """Since when nothing has been asked; None while there is something to do."""
        reader = self._reader
        busy = self._current is not None or reader.ready or reader.phase is not Phase.IDLE
        return None if busy else reader.since

    def abort(self) -> None:
        """End now, in the middle of the handshake as well."""
        if self._accepted is not None:
            with suppress(OSError):  # the other side was quicker
                self._accepted.shutdown(socket.SHUT_RDWR)
        else:
            self._transport.abort()


def _slices(body: bytes | list[bytes], length: int) -> Iterator[bytes | memoryview]:
    """A large body piece by piece. Many small buffers are joined: each write is a TLS record of its own."""
    if isinstance(body, bytes):
        view = memoryview(body)
        return (view[start : start + _SLICE] for start in range(0, length, _SLICE))
    step = max(1, len(body) * _SLICE // length)
    return (b"".join(body[start : start + step]) for start in range(0, len(body), step))


def _is_encoded(response: Response) -> bool:
    return response.headers is not None and any(name.lower() == "content-encoding" for name, _ in response.headers)


def _status(error: ApiError) -> Response:
    return Response(error.http_code, error.encoded(), headers=error.headers)


def _failure(error: BaseException) -> Response:
    if isinstance(error, ApiError):
        return _status(error)
    _log.error("handler failed", error=repr(error))
    return _status(InternalError("Internal error occurred: the request could not be served"))
