"""WebSockets to the server: consoles, screens, and whatever else is a stream both ways.

A connection of its own, outside the pool. Messages are handed out whole; while nobody takes them, nothing is read.
"""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tarmac.base.randomness import Randomness
from tarmac.client.errors import Disconnected, api_error
from tarmac.client.http import HttpConfig, tls_context
from tarmac.http.clientrequest import ConnectionBroken, StreamedReply, ask, request_head, tcp
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Piece, Socket, accept_key, new_key

_OPEN_SECONDS = 30.0
_LARGEST_ERROR = 64 * 1024
_LARGEST_MESSAGE = 4 * 1024 * 1024
_READ_AHEAD = 64  # messages


async def open_websocket(
    config: HttpConfig, target: str, protocols: Sequence[str], randomness: Randomness
) -> WebSocket:
    """Connect to a path with its query. Raises ApiError when the server refuses, Disconnected when it is not there."""
    place, key = urlsplit(config.url), new_key(randomness)
    context = tls_context(config) if place.scheme == "https" else None
    dial = tcp(place.hostname or "", place.port or (443 if context else 80), context, config.server_name or None)
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
        ("User-Agent", config.user_agent),
        *credentials(config),
    ]
    if protocols:
        headers.append(("Sec-WebSocket-Protocol", ", ".join(protocols)))
    head = request_head("GET", place.path.rstrip("/") + target, place.netloc.rpartition("@")[2], headers)
    try:
        reply = await ask(dial, head, _OPEN_SECONDS)
        if reply.status != 101:
            raise api_error(reply.status, await reply.read(_LARGEST_ERROR))
    except (OSError, ConnectionBroken) as error:
        raise Disconnected(f"{config.url}: {error}") from error
    return _accepted(reply, key, randomness)


def _accepted(reply: StreamedReply, key: str, randomness: Randomness) -> WebSocket:
    if reply.header("sec-websocket-accept") != accept_key(key):
        reply.close()
        raise Disconnected("the server does not speak WebSocket")
    made = WebSocket(*reply.detach(), randomness)
    made.protocol = reply.header("sec-websocket-protocol")
    return made


def credentials(config: HttpConfig) -> list[tuple[str, str]]:
    """The headers that say who asks, for those who have no certificate."""
    token = Path(config.token_file).read_text().strip() if config.token_file else config.token
    if token:
        return [("Authorization", f"Bearer {token}")]
    if config.username:
        pair = f"{config.username}:{config.password or ''}"
        return [("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]
    return []


class WebSocket(asyncio.Protocol):
    """An open one. `code` and `reason` are the server's when it has closed; 1006 when the connection just broke."""

    def __init__(self, transport: asyncio.Transport, rest: bytes, randomness: Randomness) -> None:
        self.protocol = ""
        self.code = 1006
        self.reason = ""
        self._transport = transport
        self._socket = Socket(randomness)
        self._begun: list[bytes] = []
        self._messages: deque[bytes] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._over = False
        self._writable = asyncio.Event()
        self._writable.set()
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    async def receive(self) -> bytes | None:
        """The next message; None when there will be none."""
        while not self._messages:
            if self._over:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        message = self._messages.popleft()
        if len(self._messages) < _READ_AHEAD and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    async def send(self, *parts: bytes) -> None:
        """One message, as fast as the other side takes it. What is sent to nobody is lost."""
        self.send_soon(*parts)
        await self._writable.wait()

    def send_soon(self, *parts: bytes) -> None:
        """One message, a small one that comes seldom."""
        self._socket.send(*parts)
        self._flush()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()
        self._flush()
        self._transport.close()
        self._end()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._socket.receive(data):
                if isinstance(event, Piece):
                    self._on_piece(event)
                elif isinstance(event, Closed):
                    self.code, self.reason = event.code, event.reason
                    self._transport.close()
        except ProtocolViolation as error:
            self.reason = str(error)
            self._transport.abort()
        self._flush()
        if len(self._messages) >= _READ_AHEAD and not self._transport.is_closing():
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._end()

    def _on_piece(self, piece: Piece) -> None:
        self._begun.append(piece.data)
        if sum(map(len, self._begun)) > _LARGEST_MESSAGE:
            raise ProtocolViolation("a message that is too long")
        if piece.last:
            self._messages.append(b"".join(self._begun))
            self._begun = []
            self._wake()

    def _end(self) -> None:
        self._over = True
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _flush(self) -> None:
        out = self._socket.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
