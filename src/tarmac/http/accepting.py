"""Accepts connections, and sheds load when file descriptors run out.

With no descriptor left, the kernel would report the waiting connection again and again, and the loop would spin. So
accepting pauses for a moment, idle connections are closed to make room, and one line is logged, however long it lasts.
A part of the descriptors is reserved, so that the store and the logs can open their files meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from tarmac.base.log import log
from tarmac.base.tasks import Tasks

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_MAX_ACCEPTS = 64  # accepted in one loop iteration, so that established connections are served, too
_RETRY_DELAY = 0.5  # seconds without accepting
_LOG_INTERVAL = 60.0  # seconds without exhaustion after which the next one is logged again
_BACKLOG = 1024
_log = log("http")

Connect = Callable[..., Any]
"""`connect_accepted_socket` of a loop."""


class ConnectionHost(Protocol):
    """The listener's side of accepting."""

    def register(self, accepted: socket.socket, address: str) -> asyncio.Protocol:
        """Return the protocol for a connection whose handshake begins now."""
        ...

    def forget(self, protocol: asyncio.Protocol) -> None:
        """Drop a connection whose handshake failed."""
        ...

    def evict(self) -> int:
        """Close expendable connections; returns their number."""
        ...

    @property
    def open_descriptors(self) -> int:
        """Descriptors held by clients."""
        ...


class Acceptor:
    """The listening sockets of one listener."""

    def __init__(
        self, host: ConnectionHost, connect: Connect, context: ssl.SSLContext | None, **options: float
    ) -> None:
        self._host = host
        self._plain, self._options = connect, options
        self.use(context)
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshakes = Tasks()
        self._pausing: asyncio.TimerHandle | None = None
        self._silent_until = 0.0

    def use(self, context: ssl.SSLContext | None) -> None:
        """Use this TLS context for new connections."""
        self._connect = partial(self._plain, ssl=context, **self._options) if context is not None else self._plain

    def add(self, bound: socket.socket) -> None:
        """Listen on a bound socket."""
        bound.setblocking(False)
        bound.listen(_BACKLOG)
        self._sockets.append(bound)
        self._loop.add_reader(bound, self._accept, bound)

    def close(self) -> None:
        """Stop accepting. Handshakes in progress end by themselves."""
        if self._pausing is not None:
            self._pausing.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets = []

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_MAX_ACCEPTS):
            # A handshake holds a descriptor, too, and is no connection yet: many silent clients would take the reserved
            # ones.
            if self._host.open_descriptors + len(self._handshakes) >= spare():
                self._pause("as many connections as there are file descriptors for")
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(str(error.strerror))
                    return
                continue  # that one connection is gone already
            self._start_handshake(accepted, address)

    def _start_handshake(self, accepted: socket.socket, address: Any) -> None:
        accepted.setblocking(False)
        protocol = self._host.register(accepted, str(address[0]) if address else "")
        self._handshakes.begin(self._handshake(accepted, protocol), "handshake")

    async def _handshake(self, accepted: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await self._connect(lambda: protocol, accepted)
        except (OSError, EOFError) as error:  # a client that does not speak TLS is no server error
            accepted.close()
            self._host.forget(protocol)
            _log.debug("TLS handshake failed", error=repr(error))

    def _pause(self, why: str) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
        closed, now = self._host.evict(), self._loop.time()
        if now > self._silent_until:
            _log.warning("no room for more connections", why=why, held=self._host.open_descriptors, closed=closed)
        self._silent_until = now + _LOG_INTERVAL
        self._pausing = self._loop.call_later(_RETRY_DELAY, self._resume)

    def _resume(self) -> None:
        self._pausing = None
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)


def spare() -> int:
    """Return the descriptors that clients may hold: an eighth is reserved, and at least 64."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft - max(64, soft // 8) if soft != resource.RLIM_INFINITY else 1 << 30


def bind(host: str, port: int, prepare: Callable[[socket.socket], None]) -> Sequence[socket.socket]:
    """Bind a socket for each address of the host, all with one port. Raises OSError that names the address."""
    bound: list[socket.socket] = []
    try:
        infos = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            each = socket.socket(family, kind, protocol)
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            prepare(each)  # accepted sockets inherit it
            each.bind((address[0], bound[0].getsockname()[1] or port, *address[2:]))
    except OSError as error:
        for each in bound:
            each.close()
        raise OSError(
            f"{host or '*'} port {port}: cannot listen: {error.strerror}; choose another address or port"
        ) from error
    return bound
