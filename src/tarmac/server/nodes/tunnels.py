"""Tunnels: connections that nodes open, since many cannot be dialled.

    GET /tarmac/v1/nodes/NAME/tunnel          a WebSocket that stays: on it the server asks for streams
    GET /tarmac/v1/nodes/NAME/tunnel/TOKEN    a stream that was asked for; upgraded to `tarmac-stream`

A stream is a fresh connection on which the roles are turned round: the server asks, the node answers. There is no
multiplexer, so each has its own flow control. Only the node itself may open either. A node that knows several
addresses of this server has as many tunnels; the newest is used. One that is silent for `SILENCE` is given up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from tarmac.api.status import BadRequest, Forbidden, NotFound
from tarmac.base.log import log
from tarmac.base.metrics import Family
from tarmac.base.randomness import Randomness
from tarmac.http.clientrequest import Dial, hand_over
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.server.security.nodeauthorizer import node_name
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Socket, accept_key, offered

PREFIX = "/tarmac/v1/nodes/"
PROTOCOL = "v1.tunnel.tarmac"
STREAM = "tarmac-stream"
PING_SECONDS = 15.0
SILENCE = 3 * PING_SECONDS
OPEN_SECONDS = 10.0

_log = log("tunnels")
_Opened = tuple[asyncio.Transport, bytes]


class Tunnels:
    """The tunnels of all nodes to this server."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._nodes: dict[str, list[_Tunnel]] = {}  # the newest last
        self._wanted: dict[tuple[str, str], asyncio.Future[_Opened]] = {}  # by node and token

    def answer(self, request: Request) -> Answer:
        """A node at the door. Raises ApiError."""
        name, _, rest = request.path.removeprefix(PREFIX).partition("/")
        if not name or node_name(request.user) != name:
            raise Forbidden(f'only the node "{name}" may open its tunnel', details={})
        if rest == "tunnel":
            return self._tunnel(request, name)
        if rest.startswith("tunnel/"):
            return self._stream(request, name, rest.removeprefix("tunnel/"))
        raise NotFound("the server could not find the requested resource", details={})

    def dial(self, node: str) -> Dial | None:
        """A way to the node, if it has a tunnel to here."""
        if node not in self._nodes:
            return None
        tunnel = self._nodes[node][-1]

        async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
            hand_over(*await self._open(node, tunnel), factory)

        return dial

    def families(self) -> Iterator[Family]:
        """For whoever scrapes the server."""
        name = "tarmac_node_tunnels"
        yield name, "gauge", "Nodes that have a tunnel to this server.", [(name, (), len(self._nodes))]

    async def _open(self, node: str, tunnel: _Tunnel) -> _Opened:
        token = self._randomness.token(16)
        arriving = self._wanted[node, token] = asyncio.get_running_loop().create_future()
        try:
            tunnel.ask(token)
            async with asyncio.timeout(OPEN_SECONDS):
                return await arriving
        except TimeoutError as error:
            raise TimeoutError(f"node {node} does not answer on its tunnel") from error
        finally:
            del self._wanted[node, token]

    def _tunnel(self, request: Request, node: str) -> Answer:
        try:
            key, protocols = offered(request.headers)
        except ProtocolViolation as error:
            raise BadRequest(str(error)) from error
        if PROTOCOL not in protocols:
            raise BadRequest(f"{PROTOCOL} is spoken here")
        headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Accept", accept_key(key)),
            ("Sec-WebSocket-Protocol", PROTOCOL),
        ]

        def start(transport: asyncio.Transport, rest: bytes) -> None:
            tunnel = _Tunnel(transport, lambda: self._lost(node, tunnel))
            self._nodes.setdefault(node, []).append(tunnel)
            _log.info("tunnel opened", node=node)
            tunnel.start(rest)

        return UpgradeResponse(start, headers)

    def _stream(self, request: Request, node: str, token: str) -> Answer:
        arriving = self._wanted.get((node, token))
        if arriving is None or arriving.done() or request.headers.get("upgrade", "").lower() != STREAM:
            raise NotFound("nobody asked for this stream", details={})

        def start(transport: asyncio.Transport, rest: bytes) -> None:
            if arriving.done():
                transport.abort()
            else:
                arriving.set_result((transport, rest))

        return UpgradeResponse(start, [("Connection", "Upgrade"), ("Upgrade", STREAM)])

    def _lost(self, node: str, tunnel: _Tunnel) -> None:
        known = self._nodes.get(node, [])
        if tunnel in known:
            known.remove(tunnel)
            _log.info("tunnel lost", node=node, left=len(known))
        if not known:
            self._nodes.pop(node, None)


class _Tunnel(asyncio.Protocol):
    """The WebSocket on which streams are asked for."""

    def __init__(self, transport: asyncio.Transport, lost: Callable[[], None]) -> None:
        self._transport = transport
        self._lost = lost
        self._socket = Socket()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def start(self, rest: bytes) -> None:
        """Take the connection over, with what came behind its upgrade."""
        self._transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def ask(self, token: str) -> None:
        """Ask the node for a stream."""
        if self._transport.is_closing():
            raise ConnectionError("the tunnel has just been lost")
        self._socket.send(msgspec.json.encode({"open": token}), text=True)
        self._flush()

    def close(self) -> None:
        """Give it up."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            events = self._socket.receive(data)
        except ProtocolViolation:
            self.close()
            return
        self._flush()
        if any(isinstance(event, Closed) for event in events):
            self._transport.close()

    def pause_writing(self) -> None:
        """A node that does not read what is asked of it is no use."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._lost()

    def _ping(self) -> None:
        if self._loop.time() - self._heard > SILENCE:
            self.close()
            return
        self._socket.ping()
        self._flush()
        self._timer = self._loop.call_later(PING_SECONDS, self._ping)

    def _flush(self) -> None:
        out = self._socket.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
