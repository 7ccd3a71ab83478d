"""A streamed response as WebSocket messages, for clients with few connections, such as browsers.

It has the same producers as a chunked response. Lines of a watch are one text message each; a log is binary messages,
or base64 as text on request. Messages from the client are ignored, except pings and close. A client that does not read
is cut off.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tarmac.http.messages import Chunk, StreamResponse, UpgradeResponse
from tarmac.http.sockets import unsent_bytes
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Socket, accept_key, offered

MAX_UNSENT: Final = 1024 * 1024
CLOSE_TIMEOUT: Final = 30.0

Send = Callable[[Socket, bytes], None]
"""Queues written bytes as messages."""


class BadHandshake(Exception):
    """The WebSocket handshake failed. The message gives the reason."""


def wants_websocket(headers: Mapping[str, str]) -> bool:
    """True if a request asks for a WebSocket upgrade."""
    return headers.get("upgrade", "").lower() == "websocket"


def lines(socket: Socket, data: bytes) -> None:
    """Send each line as a text message, with its line end, as Kubernetes sends events."""
    for line in data.splitlines(keepends=True):
        socket.send(line, text=True)


def binary(socket: Socket, data: bytes) -> None:
    """Send all as one binary message."""
    socket.send(data)


def base64_text(socket: Socket, data: bytes) -> None:
    """Send all as one base64 message, for clients that take text only."""
    socket.send(base64.b64encode(data), text=True)


def as_websocket(
    headers: Mapping[str, str], answer: StreamResponse, choose: Callable[[Sequence[str]], tuple[str, Send]], *,
    greets: bool = False,
) -> UpgradeResponse:  # fmt: skip
    """Return the response as a WebSocket. `choose` selects one of the offered subprotocols and its encoding.

    With `greets` it begins with an empty message, so that the client knows that it is open. Raises BadHandshake.
    """
    try:
        key, protocols = offered(headers)
    except ProtocolViolation as error:
        raise BadHandshake(str(error)) from error
    chosen, send = choose(protocols)
    head = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key))]
    if chosen:
        head.append(("Sec-WebSocket-Protocol", chosen))

    def start(transport: asyncio.Transport, rest: bytes) -> None:
        stream = WebSocketStream(transport, send)
        transport.set_protocol(stream)
        if greets:
            send(stream.socket, b"")
        stream.started(answer.start(stream))
        if rest:
            stream.data_received(rest)

    return UpgradeResponse(start, head, answer.abandon)


class WebSocketStream(asyncio.Protocol):
    """Implements `messages.Stream` on an upgraded connection."""

    def __init__(self, transport: asyncio.Transport, send: Send) -> None:
        self.socket = Socket()
        self._transport = transport
        self._send = send
        self._over = False
        self._paused = False
        self._waiting: asyncio.Future[None] | None = None
        self._on_cancel: Callable[[], None] | None = None
        self._cut: asyncio.TimerHandle | None = None

    def started(self, on_cancel: Callable[[], None]) -> None:
        """Set the callback for the end; called at once if the stream has ended already."""
        if self._over:
            on_cancel()
        else:
            self._on_cancel = on_cancel

    def write(self, data: bytes) -> bool:
        """Queue bytes as messages. A write is refused only when earlier ones are still unsent."""
        if not self._over and self._paused and unsent_bytes(self._transport) > MAX_UNSENT:
            self.abort()
        if self._over or self._transport.is_closing():
            return False
        if data:
            self._send(self.socket, data)
            self._transport.write(self.socket.take())
        return True

    def write_chunk(self, chunk: Chunk) -> bool:
        """As `write`: frames are not shared between streams."""
        return self.write(chunk.data)

    def close(self) -> None:
        """End in order: a close frame after the unsent bytes.

        A client that does not read it is cut off after a while.
        """
        self._close_with(1000)

    def abort(self) -> None:
        """Abort, so that the client knows that data is missing."""
        if not self._over:
            self._finish()
            self._transport.abort()

    async def drained(self) -> None:
        """Wait for flow control; for one producer."""
        if self._paused and not self._over:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    @property
    def buffered(self) -> int:
        """Bytes not yet taken by the kernel."""
        return 0 if self._over else unsent_bytes(self._transport)

    # Called by the transport.

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        try:
            events = self.socket.receive(data)
        except ProtocolViolation as error:
            self._close_with(1002, str(error))
            return
        if answers := self.socket.take():  # pongs
            self._transport.write(answers)
        if any(isinstance(event, Closed) for event in events):
            self._close_with(1000)
        elif self._paused and unsent_bytes(self._transport) > MAX_UNSENT:  # a client that pings and does not read
            self.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
        self._finish()

    def _close_with(self, code: int, reason: str = "") -> None:
        if self._over:
            return
        self._finish()
        if not self._transport.is_closing():
            self.socket.close(code, reason)
            self._transport.write(self.socket.take())
            self._transport.close()
            self._cut = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self._transport.abort)

    def _finish(self) -> None:
        self._over = True
        self._wake()
        cancel, self._on_cancel = self._on_cancel, None
        if cancel is not None:
            cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
