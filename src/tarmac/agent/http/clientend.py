"""The client's connection, whatever it carries: bytes as they are or, `tunnelled`, in the messages of a WebSocket.

Behind it stand one or more far ends (connections to a pod, or to the runtime). A client that does not take what it is
sent stops the reading of all of them; a far end that is backed up holds up the client. A client that asks for answers
(pings) without taking them is not heard any more, and one that does not take the last of what it was sent is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tarmac.http.pacing import Paced
from tarmac.http.sockets import untaken
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Piece, Socket

FLOOD = 1024 * 1024  # bytes of answers that a client may leave untaken before it is not heard any more
LINGER = 30.0


class FarEnd(Protocol):
    """What a client's connection leads to."""

    def read(self, wanted: bool) -> None:
        """Whether the client takes what comes from there."""
        ...

    def close(self) -> None:
        """The client has gone."""
        ...


class ClientEnd(Paced):
    """The client's connection: counts what is backed up, and carries bytes raw or, tunnelled, in a WebSocket."""

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
        """Take the connection over, with what came behind its upgrade."""
        self.transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def carried(self, piece: Piece) -> None:
        """Bytes of the protocol that is carried. Raises Violation."""
        raise NotImplementedError

    def ends(self) -> Sequence[FarEnd]:
        """What stands behind."""
        raise NotImplementedError

    def received(self, piece: bytes) -> None:
        try:
            self._read(piece)
        except ProtocolViolation as error:
            self.close(1002, str(error))
        if not self._flooded and untaken(self.transport) > FLOOD:
            self._flooded = True
            self.hold(True)

    def queue(self, *parts: bytes) -> None:
        """Bytes of the protocol that is carried, to be sent by `flush`; tunnelled, they are one message."""
        if self._closed:
            return
        if self._socket is None:
            self._queued += parts
        else:
            self._socket.send(*parts)

    def flush(self) -> None:
        """Send what is queued, all at once: a write for each small frame would cost more than the frames."""
        out = b"".join(self._queued) if self._socket is None else self._socket.take()
        self._queued.clear()
        if out and not self.transport.is_closing():
            self.transport.write(out)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close behind what is still to be sent; who does not take it is cut off after a while."""
        if self._closed:
            return
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
            self.carried(Piece(piece, True, True))
            return
        for event in self._socket.receive(piece):
            if isinstance(event, Piece):
                self.carried(event)
            elif isinstance(event, Closed):
                self.close()
        self.flush()
