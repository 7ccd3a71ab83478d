"""Tunnels: connections opened by nodes, since many nodes cannot be dialled.

    GET /tarmac/v1/nodes/NAME/tunnel          a permanent WebSocket, on which the server requests streams
    GET /tarmac/v1/nodes/NAME/tunnel/TOKEN    a requested stream; upgraded to `tarmac-stream`

A stream is a new connection with reversed roles: the server is the client, the node is the server. There is no
multiplexer, so each stream has its own flow control. Only the node itself may open either. A node that knows several
addresses of this server has as many tunnels; the newest is used. A tunnel that is silent for `PING_TIMEOUT` is closed.

If the server has several processes, a node's tunnel is with one of them, and its streams arrive at any. The token of a
stream begins with the number of the process that requested it; the receiving process passes the stream on to that one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import msgspec

from tarmac.api.status import BadRequest, Forbidden, NotFound
from tarmac.base.log import log
from tarmac.base.metrics import Family
from tarmac.base.randomness import Randomness
from tarmac.http.clientrequest import Dial, hand_over
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.server.security.authorization.nodeauthorizer import node_name
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Socket, accept_key, offered

PREFIX = "/tarmac/v1/nodes/"
PROTOCOL = "v1.tunnel.tarmac"
STREAM = "tarmac-stream"
PING_INTERVAL = 15.0
PING_TIMEOUT = 3 * PING_INTERVAL
OPEN_TIMEOUT = 10.0

_log = log("tunnels")
_Opened = tuple[asyncio.Transport, bytes]
# with several processes: the process number and the secret
_TOKEN = re.compile(r"(\d{1,3})-[A-Za-z0-9_-]{16,64}", re.ASCII)


class OtherWorkers(Protocol):
    """The other processes of this server."""

    @property
    def index(self) -> int:
        """The number of this process."""
        ...

    def holder(self, node: str) -> int | None:
        """Return the other process that has a tunnel of the node, or None."""
        ...

    async def ask(self, worker: int, node: str, token: str) -> None:
        """Request a stream on the node's tunnel to that process. Raises OSError."""
        ...

    async def stream(self, worker: int, node: str, token: str) -> Answer:
        """Pass a stream to the process that requested it. Raises NotFound if that process did not."""
        ...


class NodeTunnels:
    """All nodes' tunnels to this process.

    `changed` is called when a node gets its first (True) or loses its last (False).
    """

    def __init__(
        self,
        randomness: Randomness,
        others: OtherWorkers | None = None,
        changed: Callable[[str, bool], None] = lambda _node, _held: None,
    ) -> None:
        self._changed = changed
        self._randomness = randomness
        self._others = others
        self._nodes: dict[str, list[_Tunnel]] = {}  # the newest last
        self._wanted: dict[tuple[str, str], asyncio.Future[_Opened]] = {}  # by node and token

    def answer(self, request: Request) -> Answer | Awaitable[Answer]:
        """Handle a request of a node. Raises ApiError."""
        name, _, rest = request.path.removeprefix(PREFIX).partition("/")
        # First of all: a node that opens a stream of another one would receive exec sessions and logs meant for that
        # one.
        if not name or node_name(request.user) != name:
            raise Forbidden(f'only the node "{name}" may open its tunnel', details={})
        if rest == "tunnel":
            return self._tunnel(request, name)
        if rest.startswith("tunnel/"):
            return self._stream(request, name, rest.removeprefix("tunnel/"))
        raise NotFound("the server could not find the requested resource", details={})

    def dial(self, node: str) -> Dial | None:
        """Return a route to the node if it has a tunnel to this or a different process of this server, or None."""
        # The newest: an older one may be dead without having been noticed.
        others, tunnel = self._others, self._nodes[node][-1] if node in self._nodes else None
        holder = others.holder(node) if others is not None and tunnel is None else None
        if tunnel is None and holder is None:
            return None

        async def ask(token: str) -> None:
            if tunnel is not None:
                tunnel.ask(token)
            elif others is not None and holder is not None:
                await others.ask(holder, node, token)

        async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
            hand_over(*await self._open(node, ask), factory)

        return dial

    def nodes(self) -> list[str]:
        """Return the nodes with a tunnel to this process."""
        return list(self._nodes)

    def ask_here(self, node: str, token: str) -> bool:
        """Request a stream for a different process; False if the node has no tunnel here."""
        if node not in self._nodes or not _TOKEN.fullmatch(token):
            return False
        try:
            self._nodes[node][-1].ask(token)
        except ConnectionError:
            return False
        return True

    def arrived(self, node: str, token: str) -> UpgradeResponse | None:
        """Accept a stream requested by this process.

        None if it was not requested from this node, or has already arrived.
        """
        arriving = self._wanted.get((node, token))
        if arriving is None or arriving.done():
            return None

        def start(transport: asyncio.Transport, rest: bytes) -> None:
            # The requester may have given up between the upgrade and this callback: a stream that nobody reads would
            # stay open on the node.
            if arriving.done():
                transport.abort()
            else:
                arriving.set_result((transport, rest))

        return UpgradeResponse(start, [("Connection", "Upgrade"), ("Upgrade", STREAM)])

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def families(self) -> Iterator[Family]:
        """Yield the metrics of tunnels."""
        name = "tarmac_node_tunnels"
        yield name, "gauge", "Nodes that have a tunnel to this server.", [(name, (), len(self._nodes))]

    async def _open(self, node: str, ask: Callable[[str], Awaitable[None]]) -> _Opened:
        token = self._randomness.token(16)
        if self._others is not None:
            token = f"{self._others.index}-{token}"
        # Registered before the request: the stream may arrive before `ask` returns.
        arriving = self._wanted[node, token] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await ask(token)
                return await arriving
        except TimeoutError as error:
            raise TimeoutError(f"node {node} does not answer on its tunnel") from error
        finally:
            # Also after a timeout or a cancellation: a late stream with this token is then refused instead of kept.
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
            if node not in self._nodes:
                self._changed(node, True)
            # Beside older ones: a node reconnects before the server notices that its last tunnel is dead.
            self._nodes.setdefault(node, []).append(tunnel)
            _log.info("tunnel opened", node=node)
            # Last: bytes received with the upgrade may close the tunnel at once, which looks it up in the list.
            tunnel.start(rest)

        return UpgradeResponse(start, headers)

    def _stream(self, request: Request, node: str, token: str) -> Answer | Awaitable[Answer]:
        upgrades = request.headers.get("upgrade", "").lower() == STREAM
        whose = _TOKEN.fullmatch(token) if self._others is not None else None
        if upgrades and self._others is not None and whose is not None and int(whose[1]) != self._others.index:
            # The node may name a worker that does not exist: connecting to it fails, which is a NotFound, too.
            return self._others.stream(int(whose[1]), node, token)
        answer = self.arrived(node, token) if upgrades else None
        if answer is None:
            raise NotFound("nobody asked for this stream", details={})
        return answer

    def _lost(self, node: str, tunnel: _Tunnel) -> None:
        known = self._nodes.get(node, [])
        if tunnel in known:
            # Only this tunnel: a reconnected node has its newer one in the same list and must not be reported as lost.
            known.remove(tunnel)
            _log.info("tunnel lost", node=node, left=len(known))
        # Reported once, for the last tunnel: peers would otherwise take the node for lost while it reconnects.
        if not known and self._nodes.pop(node, None) is not None:
            self._changed(node, False)


class _Tunnel(asyncio.Protocol):
    """The WebSocket on which streams are requested."""

    def __init__(self, transport: asyncio.Transport, lost: Callable[[], None]) -> None:
        self._transport = transport
        self._lost = lost
        self._socket = Socket()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(PING_INTERVAL, self._ping)

    def start(self, rest: bytes) -> None:
        """Take over the connection, with the data received after the upgrade."""
        self._transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def ask(self, token: str) -> None:
        """Request a stream from the node. Raises ConnectionError if the tunnel is closing."""
        if self._transport.is_closing():
            raise ConnectionError("the tunnel has just been lost")
        self._socket.send(msgspec.json.encode({"open": token}), text=True)
        self._flush()

    def close(self) -> None:
        """Abort the connection."""
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
        """Abort the connection: the node does not read requests for streams."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._lost()

    def _ping(self) -> None:
        if self._loop.time() - self._heard > PING_TIMEOUT:
            self.close()
            return
        self._socket.ping()
        self._flush()
        self._timer = self._loop.call_later(PING_INTERVAL, self._ping)

    def _flush(self) -> None:
        out = self._socket.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
