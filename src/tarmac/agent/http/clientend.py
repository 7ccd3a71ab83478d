"""The client's connection of a stream: raw bytes or, `tunnelled`, WebSocket messages.

It is connected to one or more far ends (connections to a pod or to the runtime). A client that does not read pauses the
reading of all of them; a far end with a full write buffer pauses the client. A client that sends pings without reading
the pongs is no longer read, and one that does not read the last bytes sent to it is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tarmac.http.pacing import Paced
from tarmac.http.sockets import unsent_bytes
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, MessageChunk, Socket

MAX_UNREAD = 1024 * 1024  # bytes of unread pongs after which the client is no longer read
LINGER = 30.0


class FarEnd(Protocol):
    """A connection behind the client's."""

    def read(self, wanted: bool) -> None:
        """Resume or pause reading from it."""
        ...

    def close(self) -> None:
        """Close it: the client has disconnected."""
        ...


class ClientEnd(Paced):
    """The client's connection, raw or tunnelled in a WebSocket, with back-pressure in both directions."""

    def __init__(self, transport: asyncio.Transport, tunnelled: bool) -> None:
        super().__init__()
        self.transport = transport
        self._socket = Socket() if tunnelled else None
        self._queued: list[bytes] = []
        self._flooded = False
        self._closed = False
        self._cut: asyncio.TimerHandle | None = None
        self.backed_up = False

    def start(self, rest: bytes) -> None:
        """Take over the connection, with the bytes received after its upgrade request."""
        self.transport.set_protocol(self)
        # Bytes that came with the upgrade request: the transport does not deliver them again.
        if rest:
            self.data_received(rest)

    def carried(self, piece: MessageChunk) -> None:
        """Handle bytes of the carried protocol. Raises ProtocolViolation."""
        raise NotImplementedError

    def ends(self) -> Sequence[FarEnd]:
        """Return the connections behind this client."""
        raise NotImplementedError

    def received(self, piece: bytes) -> None:
        try:
            self._read(piece)
        except ProtocolViolation as error:
            self.close(1002, str(error))
        if not self._flooded and unsent_bytes(self.transport) > MAX_UNREAD:
            self._flooded = True
            self.hold(True)

    def queue(self, *parts: bytes) -> None:
        """Queue bytes of the carried protocol for `flush`; tunnelled, they form one message."""
        if self._closed:
            return
        if self._socket is None:
            self._queued += parts
        else:
            self._socket.send(*parts)

    def flush(self) -> None:
        """Send all queued bytes in one write: a write per small frame would cost more than the frames."""
        out = b"".join(self._queued) if self._socket is None else self._socket.take()
        self._queued.clear()
        if out and not self.transport.is_closing():
            self.transport.write(out)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close after the queued bytes are sent; abort after `LINGER` if the client does not read them."""
        if self._closed:
            return
        # First: output that the far ends send from now on must not follow the close frame.
        self._closed = True
        if self._socket is not None:
            self._socket.close(code, reason)
        self.flush()
        self.transport.close()
        self._cut = asyncio.get_running_loop().call_later(LINGER, self.transport.abort)

    def pause_writing(self) -> None:
        self.backed_up = True
        for end in self.ends():
            end.read(False)

    def resume_writing(self) -> None:
        self.backed_up = False
        if self._flooded:
            self._flooded = False
            self.hold(False)
        for end in self.ends():
            end.read(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if self._cut is not None:
            self._cut.cancel()
        for end in self.ends():
            end.close()

    def _read(self, piece: bytes) -> None:
        if self._socket is None:
            self.carried(MessageChunk(piece, True, True))
            return
        for event in self._socket.receive(piece):
            if isinstance(event, MessageChunk):
                self.carried(event)
            elif isinstance(event, Closed):
                self.close()
        self.flush()
