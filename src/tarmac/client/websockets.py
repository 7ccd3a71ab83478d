"""WebSockets to the server: consoles, displays and other bidirectional streams.

Each uses its own connection, outside the pool. Messages are delivered whole; while the reader is slow, reading pauses.
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
from tarmac.http.clientrequest import StreamedReply, request_head, send_request, tcp
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, MessageChunk, Socket, accept_key, new_key

_OPEN_TIMEOUT = 30.0
_MAX_ERROR_BODY = 64 * 1024
_MAX_MESSAGE = 4 * 1024 * 1024
_MAX_READ_AHEAD = 64  # messages


async def open_websocket(
    config: HttpConfig, target: str, protocols: Sequence[str], randomness: Randomness
) -> WebSocket:
    """Connect to a path with its query.

    Raises ApiError when the server refuses, Disconnected when it is unreachable.
    """
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
        reply = await send_request(dial, head, _OPEN_TIMEOUT)
        if reply.status != 101:
            raise api_error(reply.status, await reply.read(_MAX_ERROR_BODY))
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
    """Return the authentication headers, for clients without a certificate."""
    token = Path(config.token_file).read_text().strip() if config.token_file else config.token
    if token:
        return [("Authorization", f"Bearer {token}")]
    if config.username:
        pair = f"{config.username}:{config.password or ''}"
        return [("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")]
    return []


class WebSocket(asyncio.Protocol):
    """An open WebSocket.

    `code` and `reason` are the server's when it has closed; 1006 when the connection just broke.
    """

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
        """Return the next message; None after the last one."""
        while not self._messages:
            if self._over:
                return None
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        message = self._messages.popleft()
        if len(self._messages) < _MAX_READ_AHEAD and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    async def send(self, *parts: bytes) -> None:
        """Send one message, waiting for flow control. A message after the end is lost."""
        self.send_soon(*parts)
        await self._writable.wait()

    def send_soon(self, *parts: bytes) -> None:
        """Send one small, rare message without waiting."""
        self._socket.send(*parts)
        self._flush()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()
        self._flush()
        self._transport.close()
        self._end()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._socket.receive(data):
                if isinstance(event, MessageChunk):
                    self._on_piece(event)
                elif isinstance(event, Closed):
                    self.code, self.reason = event.code, event.reason
                    self._transport.close()
        except ProtocolViolation as error:
            self.reason = str(error)
            self._transport.abort()
        self._flush()
        if len(self._messages) >= _MAX_READ_AHEAD and not self._transport.is_closing():
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._end()

    def _on_piece(self, piece: MessageChunk) -> None:
        self._begun.append(piece.data)
        if sum(map(len, self._begun)) > _MAX_MESSAGE:
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
