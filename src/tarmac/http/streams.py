"""The sending side of a streamed answer over a connection: chunked, bounded, ended in order.

A write is refused only when earlier ones are still stuck, so one large first write (the initial state of a watch) never
cuts off a client that reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.http.heads import LAST_CHUNK
from tarmac.http.messages import Chunk


class ConnectionStream:
    """Implements `messages.Stream`. `paused` is set by the connection while the transport is backed up."""

    __slots__ = ("_chunked", "_limit", "_on_end", "_over", "_transport", "on_cancel", "paused")

    def __init__(self, transport: asyncio.Transport, limit: int, chunked: bool, on_end: Callable[[bool], None]) -> None:
        self._transport = transport
        self._limit = limit
        self._chunked = chunked
        self._on_end = on_end  # tells the connection, with whether the end was orderly
        self._over = False
        self.paused = False
        self.on_cancel: Callable[[], None] | None = None  # tells the producer

    def write(self, data: bytes) -> bool:
        """Frame and queue; empty data would end a chunked body, so it is nothing."""
        if not data:
            return not self._over
        if not self._chunked:
            return self._send(data)
        return self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def write_chunk(self, chunk: Chunk) -> bool:
        """Queue what was framed for all."""
        return self._send(chunk.framed if self._chunked else chunk.data)

    def _send(self, framed: bytes) -> bool:
        if self._over:
            return False
        if self.paused and self._transport.get_write_buffer_size() > self._limit:
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

    def lost(self) -> None:
        """The client has gone."""
        if not self._over:
            self._finish(orderly=False)

    def _finish(self, orderly: bool) -> None:
        self._over = True
        cancel, self.on_cancel = self.on_cancel, None
        if cancel is not None:
            cancel()
        self._on_end(orderly)

    def started(self, on_cancel: Callable[[], None]) -> None:
        """Take note of what to call at the end, which may already have come."""
        if self._over:
            on_cancel()
        else:
            self.on_cancel = on_cancel

    @property
    def buffered(self) -> int:
        """Bytes not yet taken by the kernel."""
        return 0 if self._over else self._transport.get_write_buffer_size()
