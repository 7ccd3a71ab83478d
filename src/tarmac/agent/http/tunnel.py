"""Tunnels to API servers that cannot dial this node: the node connects to them and serves on these connections.

Each server has one WebSocket on which it requests streams. For each request the node opens a new connection and serves
its own API on it. The client on it is the API server, which TLS verified when the node connected, and which has
authorized the user it acts for. A server without tunnel support is retried only every ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tarmac.agent.http.api import NodeApi
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import Tasks
from tarmac.client.http import HttpConfig, tls_context
from tarmac.http.clientrequest import StreamedReply, request_head, send_request, tcp
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, MessageChunk, Socket, accept_key, new_key

PROTOCOL = "v1.tunnel.tarmac"
STREAM = "tarmac-stream"
OPEN_TIMEOUT = 10.0
IDLE_TIMEOUT = 60.0  # the server pings every 15 s
POLL_INTERVAL = 60.0  # interval of reading the list of servers
_MIN_DELAY, _MAX_DELAY, _UNSUPPORTED_DELAY = 1.0, 30.0, 600.0  # delays before the next attempt
# a tunnel that lasted this long resets the delay: a worker of the server that ends is replaced within seconds
_RESET_AFTER = 5.0
_MAX_MESSAGE = 4096

_log = log("tunnel")
_read = msgspec.json.Decoder(dict[str, str]).decode

Servers = Callable[[], Awaitable[Sequence[str]]]
"""Returns the URLs of all API servers. Raises nothing: on failure it returns the last known list."""


class TunnelRefused(Exception):
    """The server answered without accepting the tunnel."""


class ServerTunnels:
    """Maintains a tunnel to each server. `config` returns the current credentials: certificates rotate."""

    def __init__(
        self,
        api: NodeApi,
        node: str,
        config: Callable[[], HttpConfig],
        servers: Servers,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._api = api
        self._path = f"/tarmac/v1/nodes/{node}/tunnel"
        self._config = config
        self._servers = servers
        self._clock = clock
        self._randomness = randomness
        self._tunnels: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()

    async def run(self) -> None:
        """Maintain the tunnels until cancelled."""
        listener = Listener(self._api.answer, ListenerLimits())
        await listener.start([], 0, None)
        try:
            while True:
                self._match(await self._servers(), listener)
                await self._clock.sleep(POLL_INTERVAL)
        finally:
            # Tunnels end before the listener: it must not adopt a stream while it stops.
            self._match((), listener)
            await self._tasks.close()
            await listener.stop(grace=1.0)

    def _match(self, servers: Sequence[str], listener: Listener) -> None:
        for gone in [url for url in self._tunnels if url not in servers]:
            # Popped at once: a server that returns in the next list gets a new tunnel, not the ending one.
            self._tunnels.pop(gone).cancel()
        for url in servers:
            if url not in self._tunnels:
                self._tunnels[url] = self._tasks.begin(self._keep(url, listener), f"tunnel to {url}")

    async def _keep(self, url: str, listener: Listener) -> None:
        pause = _MIN_DELAY
        while True:
            began = self._clock.monotonic()
            try:
                await self._hold(url, listener)
            except TunnelRefused as error:
                _log.info("server offers no tunnel", server=url, reason=str(error))
                await self._clock.sleep(_UNSUPPORTED_DELAY)
                continue
            except (OSError, ConnectionBroken, ProtocolViolation) as error:
                _log.debug("tunnel cannot be opened, will retry", server=url, error=str(error))
            # Only after a tunnel that lasted: a server that accepts and hangs up at once would be dialled without
            # pause.
            if self._clock.monotonic() - began > _RESET_AFTER:
                pause = _MIN_DELAY
            await self._clock.sleep(pause * self._randomness.uniform(0.5, 1.0))
            pause = min(pause * 2, _MAX_DELAY)

    async def _hold(self, url: str, listener: Listener) -> None:
        """Open one tunnel and wait until it is lost."""
        key = new_key(self._randomness)
        headers = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key),
            ("Sec-WebSocket-Protocol", PROTOCOL),
        ]
        reply = await self._ask(url, self._path, headers)
        if reply.status != 101 or reply.header("sec-websocket-accept") != accept_key(key):
            reply.close()
            raise TunnelRefused(f"status {reply.status}")
        tunnel = _Tunnel(*reply.detach(), self._randomness, lambda token: self._serve(url, token, listener))
        _log.info("tunnel opened", server=url)
        try:
            await tunnel.lost
        finally:
            # Also on cancellation: after `detach` nothing else closes this connection.
            tunnel.close()

    async def _serve(self, url: str, token: str, listener: Listener) -> None:
        """Open a requested stream and serve on it."""
        try:
            reply = await self._ask(url, f"{self._path}/{token}", [("Upgrade", STREAM)])
        except (OSError, ConnectionBroken) as error:
            _log.warning("stream cannot be opened", server=url, error=str(error))
            return
        if reply.status != 101:
            reply.close()
            _log.warning("stream cannot be opened", server=url, status=reply.status)
            return
        # Without an await in between: bytes that arrive before the listener is attached would be lost.
        listener.adopt(*reply.detach())

    async def _ask(self, url: str, path: str, headers: list[tuple[str, str]]) -> StreamedReply:
        # Read for each connection: certificates and tokens are replaced while the agent runs.
        config, place = self._config(), urlsplit(url)
        context = tls_context(config) if place.scheme == "https" else None
        dial = tcp(place.hostname or "", place.port or 443, context, config.server_name or None)
        lines = [("Connection", "Upgrade"), *headers, *_credentials(config)]
        return await send_request(dial, request_head("GET", path, place.netloc, lines), OPEN_TIMEOUT)


def _credentials(config: HttpConfig) -> list[tuple[str, str]]:
    token = Path(config.token_file).read_text().strip() if config.token_file else config.token
    return [("Authorization", f"Bearer {token}")] if token else []


class _Tunnel(asyncio.Protocol):
    """The WebSocket on which streams are requested. `lost` completes when it is closed."""

    def __init__(
        self,
        transport: asyncio.Transport,
        rest: bytes,
        randomness: Randomness,
        serve: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._transport = transport
        self._serve = serve
        self._socket = Socket(randomness)
        self._message = b""
        self._tasks = Tasks()
        self._timer = loop.call_later(IDLE_TIMEOUT, transport.abort)
        transport.set_protocol(self)
        # Bytes that arrived with the response: the transport does not deliver them again.
        if rest:
            self.data_received(rest)

    def close(self) -> None:
        """Abort the tunnel, and the streams that are not open yet."""
        self._transport.abort()
        self._timer.cancel()
        self._tasks.cancel()

    def data_received(self, data: bytes) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(IDLE_TIMEOUT, self._transport.abort)
        with suppress(ProtocolViolation, msgspec.MsgspecError):
            for event in self._socket.receive(data):
                if isinstance(event, MessageChunk):
                    self._on_piece(event)
                elif isinstance(event, Closed):
                    self._transport.close()
            out = self._socket.take()
            if out and not self._transport.is_closing():
                self._transport.write(out)
            return
        # Reached only after a violation: nothing that follows it on this connection can be understood.
        self._transport.abort()

    def pause_writing(self) -> None:
        """Abort: a server that does not read cannot use the tunnel."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    def _on_piece(self, piece: MessageChunk) -> None:
        self._message = piece.data if piece.first else self._message + piece.data
        # Checked for each piece: a message without end would grow here until the node has no memory.
        if len(self._message) > _MAX_MESSAGE:
            raise ProtocolViolation("a message that is too long")
        token = _read(self._message).get("open") if piece.last else None
        if token:
            self._tasks.begin(self._serve(token), "stream through a tunnel")
