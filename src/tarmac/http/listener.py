"""Listening, sweeping deadlines, stopping.

    listener = await serve(handler, ssl_context, "127.0.0.1", 6443)
    ...
    await listener.stop(grace=10)

`serve` with a handler that returns a constant `Response` is the yardstick benchmarks compare with.
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
from tarmac.base.log import log
from tarmac.http.connection import Connection
from tarmac.http.heads import Heads
from tarmac.http.limits import Backlogs, Limits, Unfinished
from tarmac.http.messages import Answer, Handler
from tarmac.http.sockets import notice_dead_peer

_log = log("http")
Accelerate = Literal["auto", "on", "off"]


class Listener:
    """A served address. Also what its connections share (`connection.Shared`)."""

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        common_headers: Sequence[tuple[str, str]] = (),
        clock: Clock | None = None,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.unfinished = Unfinished()
        self.backlogs = Backlogs(limits)
        self.heads = Heads(common_headers)
        self.loop = asyncio.get_running_loop()
        self.stopping = False
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Future[Answer]] = set()
        self.upgraded: set[asyncio.Transport] = set()
        self.port = 0
        self._clock: Clock = clock or SystemClock()  # for the Date header
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()

    async def start(
        self, hosts: Sequence[str], port: int, context: ssl.SSLContext | None, accelerate: Accelerate = "auto"
    ) -> None:
        """Bind and accept. Port 0 picks a free one for all hosts; without hosts only `adopt` brings clients."""
        create = _server_factory(self.loop, context is not None and accelerate != "off", accelerate == "on")
        tls_options: dict[str, Any] = {}
        if context is not None:
            tls_options = {"ssl_handshake_timeout": self.limits.handshake_time, "ssl_shutdown_timeout": 5.0}
            self.loop.set_exception_handler(_report)
        self.port = port
        for host in hosts:
            for bound in _bind(host, self.port):
                self.port = bound.getsockname()[1]
                server = await create(lambda: Connection(self), sock=bound, ssl=context, backlog=1024, **tls_options)
                self._servers.append(server)
        self._sweep()

    def adopt(self, transport: asyncio.Transport, rest: bytes) -> None:
        """Serve on a connection that was made elsewhere, with what came on it already."""
        connection = Connection(self)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if rest:
            connection.data_received(rest)

    def _sweep(self) -> None:
        self.heads.tick(self._clock.now())
        now = self.loop.time()
        for connection in list(self.connections):
            connection.check(now)
        self.upgraded = {transport for transport in self.upgraded if not transport.is_closing()}
        self._timer = self.loop.call_later(self.limits.sweep_interval, self._sweep)

    def settle(self) -> None:
        """Called when something ended while stopping."""
        if not self.connections and not self.tasks:
            self._quiet.set()

    async def stop(self, grace: float = 10.0) -> None:
        """Accept nothing new, end watches, finish what is under way; whatever is left after `grace` seconds is cut."""
        self.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self.connections):
            connection.stop()
        self.settle()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), grace)
        self._cut()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _cut(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self.connections):
            connection.abort()
        for transport in self.upgraded:
            transport.abort()
        for task in self.tasks:
            task.cancel()


async def serve(
    handler: Handler,
    context: ssl.SSLContext | None,
    host: str | Sequence[str] = "127.0.0.1",
    port: int = 0,
    limits: Limits | None = None,
    common_headers: Sequence[tuple[str, str]] = (("Cache-Control", "no-cache, private"),),
    accelerate: Accelerate = "auto",
) -> Listener:
    """Serve `handler` over TLS, or in the clear when `context` is None.

    `accelerate` is about aiofastnet: "auto" takes it where it is installed (a fifth less CPU per request and event).
    """
    listener = Listener(handler, limits or Limits(), common_headers)
    await listener.start([host] if isinstance(host, str) else host, port, context, accelerate)
    return listener


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody was there to catch. That somebody does not speak TLS is no error of ours."""
    if context["message"].startswith("SSL handshake failed"):
        _log.debug("TLS handshake failed", error=repr(context.get("exception")))
    else:
        loop.default_exception_handler(context)


def _server_factory(loop: asyncio.AbstractEventLoop, wanted: bool, required: bool) -> Callable[..., Any]:
    """`create_server` of the loop, or of the TLS accelerator where it is installed and wanted."""
    if wanted:
        try:
            return partial(import_module("aiofastnet").create_server, loop)
        except ImportError:
            if required:
                raise
    return loop.create_server


def _bind(host: str, port: int) -> list[socket.socket]:
    """Raises OSError that names the address."""
    bound: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            notice_dead_peer(each)  # accepted sockets inherit it
            each.bind((address[0], bound[0].getsockname()[1] or port, *address[2:]))
    except OSError as error:
        for each in bound:
            each.close()
        raise OSError(
            f"cannot listen on {host or '*'} port {port}: {error.strerror}; choose another address"
        ) from error
    return bound
