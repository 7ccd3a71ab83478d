"""Tunnels to API servers, for a node that they cannot dial: the node connects, and answers on what it connected.

To each server there is one WebSocket on which the server asks for streams. For each of them the node opens a fresh
connection and serves its own API on it. Who asks there is the API server, which was verified when we connected to it
and has authorized whoever it asks for. A server that does not know tunnels is asked again only rarely.
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
from tarmac.http.clientrequest import ConnectionBroken, StreamedReply, ask, request_head, tcp
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Piece, Socket, accept_key, new_key

PROTOCOL = "v1.tunnel.tarmac"
STREAM = "tarmac-stream"
OPEN_SECONDS = 10.0
SILENCE = 60.0  # the server pings every 15 s
LOOK_SECONDS = 60.0  # how often the list of servers is looked at
_SHORTEST, _LONGEST, _UNKNOWN = 1.0, 30.0, 600.0  # pauses before the next attempt
_STEADY = 5.0  # a tunnel that lasted so long was a good one: a worker of its server that ends is replaced in seconds
_LARGEST_MESSAGE = 4096

_log = log("tunnel")
_read = msgspec.json.Decoder(dict[str, str]).decode

Servers = Callable[[], Awaitable[Sequence[str]]]
"""URLs of all API servers. Raises nothing: what cannot be found out now is what was known before."""


class TunnelRefused(Exception):
    """The server answers, and it is not a tunnel."""


class Tunnels:
    """Keeps a tunnel to each server. `config` tells who we are, now: certificates rotate."""

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
        self._kept: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()

    async def run(self) -> None:
        """Keep them until cancelled."""
        listener = Listener(self._api.answer, ListenerLimits())
        await listener.start([], 0, None)
        try:
            while True:
                self._match(await self._servers(), listener)
                await self._clock.sleep(LOOK_SECONDS)
        finally:
            self._match((), listener)
            await self._tasks.close()
            await listener.stop(grace=1.0)

    def _match(self, servers: Sequence[str], listener: Listener) -> None:
        for gone in [url for url in self._kept if url not in servers]:
            self._kept.pop(gone).cancel()
        for url in servers:
            if url not in self._kept:
                self._kept[url] = self._tasks.begin(self._keep(url, listener), f"tunnel to {url}")

    async def _keep(self, url: str, listener: Listener) -> None:
        pause = _SHORTEST
        while True:
            began = self._clock.monotonic()
            try:
                await self._hold(url, listener)
            except TunnelRefused as error:
                _log.info("no tunnel is offered", server=url, reason=str(error))
                await self._clock.sleep(_UNKNOWN)
                continue
            except (OSError, ConnectionBroken, ProtocolViolation) as error:
                _log.debug("tunnel not opened", server=url, error=str(error))
            if self._clock.monotonic() - began > _STEADY:
                pause = _SHORTEST
            await self._clock.sleep(pause * self._randomness.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST)

    async def _hold(self, url: str, listener: Listener) -> None:
        """One tunnel, for as long as it lasts."""
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
        _log.info("tunnel open", server=url)
        try:
            await tunnel.lost
        finally:
            tunnel.close()

    async def _serve(self, url: str, token: str, listener: Listener) -> None:
        """Open a stream that was asked for, and answer on it."""
        try:
            reply = await self._ask(url, f"{self._path}/{token}", [("Upgrade", STREAM)])
        except (OSError, ConnectionBroken) as error:
            _log.warning("stream not opened", server=url, error=str(error))
            return
        if reply.status != 101:
            reply.close()
            _log.warning("stream not opened", server=url, status=reply.status)
            return
        listener.adopt(*reply.detach())

    async def _ask(self, url: str, path: str, headers: list[tuple[str, str]]) -> StreamedReply:
        config, place = self._config(), urlsplit(url)
        context = tls_context(config) if place.scheme == "https" else None
        dial = tcp(place.hostname or "", place.port or 443, context, config.server_name or None)
        lines = [("Connection", "Upgrade"), *headers, *_credentials(config)]
        return await ask(dial, request_head("GET", path, place.netloc, lines), OPEN_SECONDS)


def _credentials(config: HttpConfig) -> list[tuple[str, str]]:
    token = Path(config.token_file).read_text().strip() if config.token_file else config.token
    return [("Authorization", f"Bearer {token}")] if token else []


class _Tunnel(asyncio.Protocol):
    """The WebSocket on which streams are asked for. `lost` is done when it is."""

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
        self._timer = loop.call_later(SILENCE, transport.abort)
        transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def close(self) -> None:
        """Give it up, and streams that are not open yet."""
        self._transport.abort()
        self._timer.cancel()
        self._tasks.cancel()

    def data_received(self, data: bytes) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(SILENCE, self._transport.abort)
        with suppress(ProtocolViolation, msgspec.MsgspecError):
            for event in self._socket.receive(data):
                if isinstance(event, Piece):
                    self._on_piece(event)
                elif isinstance(event, Closed):
                    self._transport.close()
            out = self._socket.take()
            if out and not self._transport.is_closing():
                self._transport.write(out)
            return
        self._transport.abort()

    def pause_writing(self) -> None:
        """A server that does not read what is asked of it is no use."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        if not self.lost.done():
            self.lost.set_result(None)

    def _on_piece(self, piece: Piece) -> None:
        self._message = piece.data if piece.first else self._message + piece.data
        if len(self._message) > _LARGEST_MESSAGE:
            raise ProtocolViolation("a message that is too long")
        token = _read(self._message).get("open") if piece.last else None
        if token:
            self._tasks.begin(self._serve(token), "stream through a tunnel")
