"""The listener: binds, checks deadlines, shuts down.

    listener = await serve(handler, ssl_context, "127.0.0.1", 6443)
    ...
    await listener.stop(grace=10)

`serve` with a handler that returns a constant `Response` is the baseline of the benchmarks.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Literal

from tarmac.base.clock import Clock, SystemClock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.tasks import Tasks
from tarmac.http.accepting import Acceptor, Connect, bind
from tarmac.http.connection import ServerConnection
from tarmac.http.limits import Backlogs, ListenerLimits, Shares
from tarmac.http.messages import Handler, Request
from tarmac.http.responseheads import Heads
from tarmac.http.sockets import enable_keepalive, reuse_port
from tarmac.http.unauthenticated import UnauthenticatedConnections

_log = log("http")
Accelerate = Literal["auto", "on", "off"]
_CERTIFICATES_PER_ITERATION = 50  # certificates read in one loop iteration: about 2 ms


class Listener:
    """A served address. Also the state its connections share (`connection.Shared`)."""

    def __init__(
        self,
        handler: Handler,
        limits: ListenerLimits,
        common_headers: Sequence[tuple[str, str]] = (),
        clock: Clock | None = None,
        authenticates: Callable[[Request], bool] | None = None,
    ) -> None:
        self.handler = handler
        self.authenticates = authenticates
        self.limits = limits
        self.shares = Shares(limits)
        self.unauthenticated = UnauthenticatedConnections["ServerConnection"](limits.unauthenticated)
        self.backlogs = Backlogs(limits)
        self.heads = Heads(common_headers)
        self.loop = asyncio.get_running_loop()
        self.stopping = False
        self.connections: set[ServerConnection] = set()
        self.tasks = Tasks()
        self.upgraded: set[asyncio.Transport] = set()
        self.port = 0
        self._clock: Clock = clock or SystemClock()  # for the Date header
        self._acceptor: Acceptor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    async def start(
        self,
        hosts: Sequence[str],
        port: int,
        context: ssl.SSLContext | None,
        accelerate: Accelerate = "auto",
        share_port: bool = False,
    ) -> None:
        """Bind and accept. Port 0 picks a free one for all hosts; without hosts only `adopt` brings clients.

        `share_port`: other processes of this user listen there too, and the kernel distributes connections among them.
        """
        connect = _connect_of(self.loop, context is not None and accelerate != "off", accelerate == "on")
        tls_options: dict[str, float] = {}
        if context is not None:
            tls_options = {"ssl_handshake_timeout": self.limits.handshake_time, "ssl_shutdown_timeout": 5.0}
            self.loop.set_exception_handler(_report)
        self.port = port
        self._acceptor = Acceptor(self, connect, context, **tls_options)
        for host in hosts:
            for bound in bind(host, self.port, reuse_port if share_port else enable_keepalive):
                self.port = bound.getsockname()[1]
                self._acceptor.add(bound)
        self._sweep()

    def use(self, context: ssl.SSLContext) -> None:
        """Use a new TLS context (certificate, trusted CAs) for new connections. Present ones stay."""
        if self._acceptor is not None:
            self._acceptor.use(context)

    # Called by the acceptor.

    def register(self, accepted: socket.socket, address: str) -> ServerConnection:
        """Return a connection for a socket whose handshake begins now."""
        connection = ServerConnection(self, accepted)
        self.admit(connection, address)
        return connection

    def admit(self, connection: ServerConnection, address: str) -> None:
        """Count an unauthenticated connection, and close the one evicted for it."""
        gone = self.unauthenticated.add(connection, address)
        if gone is not None:
            gone.abort()

    def forget(self, protocol: asyncio.Protocol) -> None:
        """Drop a connection whose handshake failed."""
        if isinstance(protocol, ServerConnection):
            self.unauthenticated.discard(protocol)

    def evict(self) -> int:
        """Close the older half of the unauthenticated connections, and the longest-idle half of all idle ones."""
        unauthenticated = list(self.unauthenticated)[: (len(self.unauthenticated) + 1) // 2]
        idle = [each for each in self.connections if each not in self.unauthenticated and each.idle_since is not None]
        idle.sort(key=lambda each: each.idle_since or 0.0)
        for connection in (*unauthenticated, *idle[: (len(idle) + 1) // 2]):
            connection.abort()
        return len(unauthenticated) + (len(idle) + 1) // 2

    @property
    def open_descriptors(self) -> int:
        """Descriptors held by clients; an upgraded connection holds a second one behind it."""
        return len(self.connections) + 2 * len(self.upgraded)

    def adopt(self, transport: asyncio.Transport, rest: bytes) -> None:
        """Serve on a connection made elsewhere, with the bytes received on it already."""
        connection = ServerConnection(self)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        connection.recognise()
        if rest:
            connection.data_received(rest)

    async def end_certified(self, refused: Callable[[bytes], bool]) -> int:
        """Close connections with a refused client certificate (DER), also upgraded ones; returns their number.

        Reading thousands of certificates takes a while, so other tasks run in between.
        """
        ended = 0
        for number, each in enumerate([*self.connections, *self.upgraded], 1):
            shown = each.peer_certificate if isinstance(each, ServerConnection) else _certificate_of(each)
            if shown is not None and refused(shown):
                each.abort()
                ended += 1
            if number % _CERTIFICATES_PER_ITERATION == 0:
                await asyncio.sleep(0)
        return ended

    def _sweep(self) -> None:
        self.heads.tick(self._clock.now())
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)
        self.upgraded = {transport for transport in self.upgraded if not transport.is_closing()}
        self._timer = self.loop.call_later(self.limits.sweep_interval, self._sweep)

    def settle(self) -> None:
        """Called when a connection or task ended during shutdown."""
        if not self.connections and not self.tasks:
            self._quiet.set()

    async def stop(self, grace: float = 10.0) -> None:
        """Stop accepting, end watches, finish requests in progress; cut the remaining ones after `grace` seconds."""
        self.stopping = True
        if self._acceptor is not None:
            self._acceptor.close()
        for connection in list(self.connections):
            connection.stop()
        self.settle()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), grace)
        self._cut()
        await self.tasks.close()

    def _cut(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in {*self.connections, *self.unauthenticated}:
            connection.abort()
        for transport in self.upgraded:
            transport.abort()


async def serve(
    handler: Handler,
    context: ssl.SSLContext | None,
    host: str | Sequence[str] = "127.0.0.1",
    port: int = 0,
    limits: ListenerLimits | None = None,
    common_headers: Sequence[tuple[str, str]] = (("Cache-Control", "no-cache, private"),),
    accelerate: Accelerate = "auto",
    authenticates: Callable[[Request], bool] | None = None,
    share_port: bool = False,
) -> Listener:
    """Serve `handler` over TLS, or in the clear when `context` is None.

    `authenticates` tells if the credential of a request is valid before its body is read; `share_port` as in `start`.
    `accelerate` is about aiofastnet: "auto" takes it where it is installed (a fifth less CPU per request and event).
    """
    listener = Listener(handler, limits or ListenerLimits(), common_headers, authenticates=authenticates)
    await listener.start([host] if isinstance(host, str) else host, port, context, accelerate, share_port)
    return listener


def _certificate_of(transport: asyncio.Transport) -> bytes | None:
    tls = transport.get_extra_info("ssl_object")
    return None if tls is None else tls.getpeercert(True)


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle uncaught exceptions of the loop. A client that does not speak TLS is no server error."""
    end_if_out_of_memory(context.get("exception"))
    if context["message"].startswith("SSL handshake failed"):
        _log.debug("TLS handshake failed", error=repr(context.get("exception")))
    else:
        loop.default_exception_handler(context)


def _connect_of(loop: asyncio.AbstractEventLoop, wanted: bool, required: bool) -> Connect:
    """Return `connect_accepted_socket` of the loop, or of the TLS accelerator where it is installed and wanted."""
    if wanted:
        try:
            return partial(import_module("aiofastnet").connect_accepted_socket, loop)
        except ImportError:
            if required:
                raise
    return loop.connect_accepted_socket
