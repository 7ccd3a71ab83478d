"""Accepting connections, and what happens when there is no room for more.

Descriptors used up are no reason to spin: the kernel would report the waiting connection again and again. Accepting
rests for a moment, idle connections are closed to make room, and one line says so, however long it lasts.
A part of the descriptors is never given to clients, so that the store and the logs can open their files meanwhile.
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

_USED_UP = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_AT_ONCE = 64  # accepted in one turn of the loop: whoever is connected already has a turn, too
_REST = 0.5  # seconds
_QUIET = 60.0  # seconds without trouble after which the next trouble gets a line of its own
_BACKLOG = 1024
_log = log("http")

Connect = Callable[..., Any]
"""`connect_accepted_socket` of a loop."""


class Welcome(Protocol):
    """What a listener does with those who come."""

    def welcome(self, accepted: socket.socket, address: str) -> asyncio.Protocol:
        """The protocol for a connection whose handshake begins now."""
        ...

    def forget(self, protocol: asyncio.Protocol) -> None:
        """Its handshake failed."""
        ...

    def make_room(self) -> int:
        """Close what can be spared; how many that are."""
        ...

    @property
    def held(self) -> int:
        """Descriptors that clients have."""
        ...


class Acceptor:
    """The listening sockets of one listener."""

    def __init__(self, host: Welcome, connect: Connect, context: ssl.SSLContext | None, **options: float) -> None:
        self._host = host
        self._plain, self._options = connect, options
        self.use(context)
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._handshakes = Tasks()
        self._resting: asyncio.TimerHandle | None = None
        self._quiet_until = 0.0

    def use(self, context: ssl.SSLContext | None) -> None:
        """For those who come from now on."""
        self._connect = partial(self._plain, ssl=context, **self._options) if context is not None else self._plain

    def add(self, bound: socket.socket) -> None:
        """Listen on a socket that is bound."""
        bound.setblocking(False)
        bound.listen(_BACKLOG)
        self._sockets.append(bound)
        self._loop.add_reader(bound, self._accept, bound)

    def close(self) -> None:
        """Accept nothing more. Handshakes that are under way end by themselves."""
        if self._resting is not None:
            self._resting.cancel()
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets = []

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            # Who is in the handshake holds a descriptor, too, and is no connection yet: a crowd that says nothing
            # would take those that are kept back.
            if self._host.held + len(self._handshakes) >= spare():
                self._rest("as many connections as there are file descriptors for")
                return
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _USED_UP:
                    self._rest(str(error.strerror))
                    return
                continue  # that one connection has gone already
            self._greet(accepted, address)

    def _greet(self, accepted: socket.socket, address: Any) -> None:
        accepted.setblocking(False)
        protocol = self._host.welcome(accepted, str(address[0]) if address else "")
        self._handshakes.begin(self._handshake(accepted, protocol), "handshake")

    async def _handshake(self, accepted: socket.socket, protocol: asyncio.Protocol) -> None:
        try:
            await self._connect(lambda: protocol, accepted)
        except (OSError, EOFError) as error:  # that somebody does not speak TLS is no error of ours
            accepted.close()
            self._host.forget(protocol)
            _log.debug("TLS handshake failed", error=repr(error))

    def _rest(self, why: str) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
        closed, now = self._host.make_room(), self._loop.time()
        if now > self._quiet_until:
            _log.warning("no room for more connections", why=why, held=self._host.held, closed=closed)
        self._quiet_until = now + _QUIET
        self._resting = self._loop.call_later(_REST, self._resume)

    def _resume(self) -> None:
        self._resting = None
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)


def spare() -> int:
    """How many descriptors clients may have: an eighth is kept back, and at least 64."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return soft - max(64, soft // 8) if soft != resource.RLIM_INFINITY else 1 << 30


def bind(host: str, port: int, prepare: Callable[[socket.socket], None]) -> Sequence[socket.socket]:
    """A socket for each address of the host, all with one port. Raises OSError that names the address."""
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
            f"cannot listen on {host or '*'} port {port}: {error.strerror}; choose another address"
        ) from error
    return bound
