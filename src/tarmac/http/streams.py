"""The sending side of a streamed response over a connection: chunked, bounded, ended in order.

A write is refused only when earlier ones are still unsent, so one large first write (the initial state of a watch)
never cuts off a client that reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.http.limits import Backlogs
from tarmac.http.messages import Chunk, Stream, StreamResponse
from tarmac.http.responseheads import LAST_CHUNK

_log = log("http")
_pulling = Tasks()  # each is cancelled by the stream it fills


class ConnectionStream:
    """Implements `messages.Stream`. The connection calls `pause` on back-pressure, and after."""

    __slots__ = ("_backlogs", "_chunked", "_on_end", "_over", "_paused", "_transport", "_waiting", "on_cancel")

    def __init__(
        self, transport: asyncio.Transport, backlogs: Backlogs, chunked: bool, on_end: Callable[[bool], None]
    ) -> None:
        self._transport = transport
        self._backlogs = backlogs
        self._chunked = chunked
        self._on_end = on_end  # called with True after an orderly end
        self._over = False
        self._paused = False
        self._waiting: asyncio.Future[None] | None = None
        self.on_cancel: Callable[[], None] | None = None  # stops the producer

    def write(self, data: bytes) -> bool:
        """Frame and queue; empty data would end a chunked body, so it is ignored."""
        if not data:
            return not self._over
        if not self._chunked:
            return self._send(data)
        return self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def write_chunk(self, chunk: Chunk) -> bool:
        """Queue a chunk that is framed once for all streams."""
        return self._send(chunk.framed if self._chunked else chunk.data)

    def _send(self, framed: bytes) -> bool:
        if self._over:
            return False
        # the client disconnected; `connection_lost` comes only after this loop iteration
        if self._transport.is_closing():
            self._finish(orderly=False)
            return False
        if self._paused and self._transport.get_write_buffer_size() > self._backlogs.share:
            self._finish(orderly=False)
            return False
        self._transport.write(framed)
        return True

    def close(self) -> None:
        """End in order; the connection stays usable."""
        if not self._over:
            if self._chunked:
                self._transport.write(LAST_CHUNK)
            self._finish(orderly=True)

    def abort(self) -> None:
        """End without the final chunk, or record that the client disconnected."""
        if not self._over:
            self._finish(orderly=False)

    def pause(self, paused: bool) -> None:
        """Record whether the transport is backed up."""
        self._backlogs.slow += paused - self._paused
        self._paused = paused
        if not paused:
            self._wake()

    async def drained(self) -> None:
        """Wait for flow control; for one producer."""
        if self._paused and not self._over:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _finish(self, orderly: bool) -> None:
        self._over = True
        self.pause(False)
        cancel, self.on_cancel = self.on_cancel, None
        if cancel is not None:
            cancel()
        self._on_end(orderly)

    def started(self, on_cancel: Callable[[], None]) -> None:
        """Set the callback for the end; called at once if the stream has ended already."""
        if self._over:
            on_cancel()
        else:
            self.on_cancel = on_cancel

    @property
    def buffered(self) -> int:
        """Bytes not yet taken by the kernel."""
        return 0 if self._over else self._transport.get_write_buffer_size()


def stream_of(
    chunks: AsyncIterator[bytes],
    status: int = 200,
    content_type: str = "application/json",
    headers: list[tuple[str, str]] | None = None,
    abandon: Callable[[], None] | None = None,
) -> StreamResponse:
    """Return a response produced as fast as the client reads. An error in the producer aborts it."""

    def start(stream: Stream) -> Callable[[], None]:
        task = _pulling.begin(_pull(chunks, stream), "streamed answer")

        def stop() -> None:
            task.cancel()

        return stop

    return StreamResponse(start, status, content_type, headers, abandon)


async def _pull(chunks: AsyncIterator[bytes], stream: Stream) -> None:
    try:
        async for chunk in chunks:
            if not stream.write(chunk):
                return
            await stream.drained()
    except Exception as error:
        end_if_out_of_memory(error)
        _log.warning("streamed response aborted", error=repr(error))
        stream.abort()
    else:
        stream.close()
