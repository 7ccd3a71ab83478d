"""One server-side connection: takes requests from the reader in order, calls the handler, sends the response.

At most one request is handled at a time (`_current`); pipelined ones wait in the reader. A handler that returns a
response at once costs no task. One that must wait gets a task; when its client disconnects, or its timeout expires, the
task is cancelled if it only reads, and runs to completion with its response discarded if it writes, because an accepted
write must not be torn.

Deadlines are not timers: the listener calls `check` on every connection once per interval.
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
from tarmac.http.unauthenticated import UnauthenticatedConnections

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_MAX_JOINED = 64 * 1024  # up to this size head and body are copied together: one record, one system call
# Larger bodies are sent in slices, so that a slow client holds no second, encrypted copy of them.
_SLICE_SIZE = 256 * 1024
_log = log("http")


class ConnectionContext(Protocol):
    """State that the connections of one listener share."""

    handler: Handler
    limits: ListenerLimits
    authenticates: Callable[[Request], bool] | None
    shares: Shares
    unauthenticated: UnauthenticatedConnections[ServerConnection]
    backlogs: Backlogs
    heads: Heads
    loop: asyncio.AbstractEventLoop
    stopping: bool
    connections: set[ServerConnection]
    tasks: Tasks
    upgraded: set[asyncio.Transport]

    def settle(self) -> None:
        """Notify the listener that a connection or task ended during shutdown."""
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

    def __init__(self, shared: ConnectionContext, accepted: socket.socket | None = None) -> None:
        self._shared = shared
        self._accepted = accepted  # until the handshake is done
        self._reader = RequestReader(shared.limits, shared.loop.time, shared.shares, shared.authenticates)
        self._transport = cast("asyncio.Transport", None)
        self._current: Request | None = None
        self._task: asyncio.Future[Answer] | None = None
        self._stream: ConnectionStream | None = None
        self._slices: Iterator[bytes | memoryview] | None = None  # the unsent rest of a large body
        self._paused = False  # the client reads too slowly
        self._pausing = False  # reading from the client is paused
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
        """Mark the client as authenticated."""
        self._reader.authenticated = True
        self._shared.unauthenticated.discard(self)

    def eof_received(self) -> None:
        """The client half-closed. With TLS it cannot receive either, so drop queued requests and streams.

        A write already accepted by the store runs to completion.
        """
        self._reader.close()
        self._slices = None
        if self._stream is not None:
            self._stream.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.discard(self)
        self._shared.unauthenticated.discard(self)
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
        """Pause reading until queued requests are handled, or an upgrade takes over."""
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
        if not self._reader.authenticated and self._current is not None and self._current.authenticated:
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
        except UnsendableHeader as error:  # detected before anything was written
            self._respond(_failure(error))

    def _wait_for(self, answer: Awaitable[Answer]) -> None:
        self._task = self._shared.tasks.track(answer, "request", self._waited)

    def _waited(self, task: asyncio.Future[Answer]) -> None:
        self._shared.tasks.discard(task)
        if task.cancelled():
            answer: Answer = _status(ServiceUnavailable("the server is shutting down"))
        else:
            error = task.exception()
            answer = task.result() if error is None else _failure(error)
        if task is self._task:  # else the client disconnected, or got a timeout
            self._task = None
            self._reader.since = self._shared.loop.time()
            self._answer_with(answer)
            self._advance()
        elif not isinstance(answer, Response) and answer.abandon is not None:
            answer.abandon()
        if self._shared.stopping:
            self._shared.settle()

    def _abandon_task(self) -> None:
        # Cleared before it is cancelled: `_waited`, which is called in any case, then knows that the client is gone. A
        # write is never cancelled, as the store may have accepted it already.
        task, self._task = self._task, None
        if task is not None and self._current is not None and self._current.method in _READS:
            task.cancel()

    def _finished(self) -> None:
        """The response to the current request is with the transport, whole."""
        self._current = None
        reader = self._reader
        if (reader.last or self._shared.stopping) and not reader.ready:
            self._transport.close()

    # Complete responses.

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
        elif length <= _MAX_JOINED:
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
                # Deferred: `_advance` may have called this, and pipelined responses would stack up its frames.
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
            # `start` may write so much, or to a disconnected client, that the stream ends before `started` is called.
            stream.started(answer.start(stream))
        except Exception as error:
            end_if_out_of_memory(error)
            _log.error("stream start failed", error=repr(error))
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
        # From here on the upgrade owns the transport, and no deadline of this class may close it.
        rest, reader.rest = reader.rest, None
        self._shared.connections.discard(self)
        self._shared.unauthenticated.discard(self)
        self._shared.upgraded.add(transport)
        self._read_on()
        answer.start(transport, rest)

    # Refusals, deadlines, the end.

    def _refuse(self, error: ApiError) -> None:
        """Send the refusal of an unreadable request, then let the client finish sending, or it would never read it."""
        response = _status(error)
        head = self._shared.heads.block(response.status, response.content_type, error.headers or ())
        body = cast("bytes", response.body)
        head = b"%bConnection: close\r\nContent-Length: %d\r\n\r\n" % (head, len(body))
        self._transport.write(head + body)
        self._refused = True
        self._reader.since = self._shared.loop.time()

    def check(self, now: float) -> None:
        """Enforce the deadline of the current phase."""
        limits, reader = self._shared.limits, self._reader
        waited = now - reader.since
        if self._paused and self._stream is None and now - self._write_since > limits.write_time:
            self._transport.abort()
        elif self._task is not None:
            if waited > limits.answer_time:
                self._give_up()
        elif self._stream is not None or self._slices is not None:
            pass
        elif waited > self._phase_timeout(limits):
            self._transport.abort() if reader.phase is not Phase.IDLE else self._transport.close()

    def _phase_timeout(self, limits: ListenerLimits) -> float:
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
        """End as soon as the current exchange allows; watchers see an orderly end of their stream."""
        if self._stream is not None:
            self._stream.close()
        elif self._current is None and not self._reader.ready:
            self._transport.close()

    @property
    def idle_since(self) -> float | None:
        """Time since the last request; None while a request is in progress."""
        reader = self._reader
        busy = self._current is not None or reader.ready or reader.phase is not Phase.IDLE
        return None if busy else reader.since

    def abort(self) -> None:
        """End at once, also during the handshake."""
        if self._accepted is not None:
            with suppress(OSError):  # the peer closed it first
                self._accepted.shutdown(socket.SHUT_RDWR)
        else:
            self._transport.abort()


def _slices(body: bytes | list[bytes], length: int) -> Iterator[bytes | memoryview]:
    """Yield a large body slice by slice. Many small buffers are joined: each write is a separate TLS record."""
    if isinstance(body, bytes):
        view = memoryview(body)
        return (view[start : start + _SLICE_SIZE] for start in range(0, length, _SLICE_SIZE))
    step = max(1, len(body) * _SLICE_SIZE // length)
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
