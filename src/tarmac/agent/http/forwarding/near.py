"""The client's connection, whatever it carries."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarmac.agent.http.forwarding.podend import PodEnd
from tarmac.http.sockets import untaken
from tarmac.wire.violations import Violation
from tarmac.wire.websocket import Closed, Piece, Socket

FLOOD = 1024 * 1024  # bytes of answers that a client may leave untaken before it is not heard any more


class Near(asyncio.Protocol):
    """The client's connection: counts what is backed up, and carries bytes raw or, tunnelled, in a WebSocket."""

    def __init__(self, transport: asyncio.Transport, tunnelled: bool) -> None:
        self._transport = transport
        self._socket = Socket(server=True) if tunnelled else None
        self._held = 0
        self._flooded = False
        self.backed_up = False

    def start(self, rest: bytes) -> None:
        """Take the connection over, with what came behind its upgrade."""
        self._transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def data_received(self, data: bytes) -> None:
        try:
            self._receive(data)
        except Violation as error:
            if self._socket is not None:
                self._socket.close(1002, str(error))
                self._flush_socket()
            self._transport.close()
        if not self._flooded and untaken(self._transport) > FLOOD:
            self._flooded = True  # it asks for answers (pings) and does not take them
            self.hold(True)

    def _receive(self, data: bytes) -> None:
        if self._socket is None:
            self.received(Piece(data, True, True))
            return
        for event in self._socket.receive(data):
            if isinstance(event, Piece):
                self.received(event)
            elif isinstance(event, Closed):
                self._socket.close(1000)
                self._flush_socket()
                self._transport.close()
        self._flush_socket()

    def received(self, piece: Piece) -> None:
        """Bytes of the protocol that is carried."""
        raise NotImplementedError

    def ends(self) -> Sequence[PodEnd]:
        """The connections to the pod."""
        raise NotImplementedError

    def carry(self, *parts: bytes) -> None:
        """Send bytes of the protocol that is carried."""
        if self._transport.is_closing():
            return
        if self._socket is None:
            self._transport.write(b"".join(parts))
        else:
            self._socket.send(*parts)
            self._flush_socket()

    def hold(self, held: bool) -> None:
        """One more, or one less, connection to the pod is backed up."""
        self._held += 1 if held else -1
        if not self._transport.is_closing():
            self._transport.pause_reading() if self._held else self._transport.resume_reading()

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
        for end in self.ends():
            end.close()

    def close(self) -> None:
        """Close behind what is still to be sent."""
        if self._socket is not None:
            self._socket.close(1000)
            self._flush_socket()
        self._transport.close()

    def _flush_socket(self) -> None:
        out = self._socket.take() if self._socket is not None else b""
        if out and not self._transport.is_closing():
            self._transport.write(out)
