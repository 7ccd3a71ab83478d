"""Several servers of one cluster, with failover.

Requests go to one of them. A connection that cannot be made, or whose handshake is not answered within a second, is
made to the next one, and requests go there from then on; after five minutes new connections try the first one again,
which is the nearest, or the configured one. Each is verified by the dialled address.

A request is sent to the next server only where that is harmless: nothing of it was sent, or it only reads. The outcome
of a write that was sent is unknown, and only its caller can find out.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

from tarmac.base.clock import Clock
from tarmac.client.connections import CONNECT_TIMEOUT, ClientConnection, Connections
from tarmac.client.errors import Disconnected, ServerUnreachable

HANDSHAKE_TIMEOUT = 1.0
FAILBACK_SECONDS = 300.0
_READ_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))


class ServerAt:
    """One server, and the connections to it."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        parts = urlsplit(url)
        self.url = url.rstrip("/")
        self.prefix = parts.path.rstrip("/")
        self.authority = parts.netloc.rpartition("@")[2]
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        self.connections = Connections(host, port, tls if parts.scheme == "https" else None, server_name or host)


Message = Callable[[ServerAt], bytes]
"""Renders a request for one server: its host header and path prefix differ."""


class Servers:
    """All servers. `make` creates the entry of a new one."""

    def __init__(self, urls: Sequence[str], make: Callable[[str], ServerAt], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._servers = [make(url) for url in dict.fromkeys(urls)]
        self._former: list[ServerAt] = []  # their last responses may still be read
        self._current = self._servers[0]
        self._left = 0.0  # time of the failover from the first one

    @property
    def current(self) -> ServerAt:
        """The server that receives requests at present."""
        return self._current

    def use(self, urls: Sequence[str]) -> None:
        """Replace the list, the first one preferred. Exchanges in progress stay where they are."""
        known = {server.url: server for server in self._servers}
        wanted = list(dict.fromkeys(url.rstrip("/") for url in urls))
        self._servers = [known.pop(url, None) or self._make(url) for url in wanted]
        for gone in known.values():
            gone.connections.close_idle()
        # Bounded by the servers still in use: servers come and go for years.
        self._former = [each for each in (*self._former, *known.values()) if each.connections.in_use]
        if self._current not in self._servers:
            self._current = self._servers[0]

    async def exchange(self, method: str, message: Message) -> tuple[ServerAt, ClientConnection]:
        """Send a request and wait for the head of its response. Raises Disconnected, ServerUnreachable."""
        if len(self._servers) == 1:
            server = self._servers[0]
            return server, await server.connections.exchange(method, message(server))
        failure = Disconnected("there is no server")
        for server, timeout in self._in_order():
            try:
                connection = await server.connections.exchange(method, message(server), timeout)
            except Disconnected as error:
                self.leave(server)
                if not isinstance(error, ServerUnreachable) and method not in _READ_METHODS:
                    raise  # it was sent, and may have been executed
                failure = error
                continue
            self._current = server
            return server, connection
        raise failure

    def leave(self, server: ServerAt) -> None:
        """Fail over to the next server, and close the idle connections to this one."""
        server.connections.close_idle()
        if server is self._current and len(self._servers) > 1 and server in self._servers:
            at = self._servers.index(server)
            self._current = self._servers[(at + 1) % len(self._servers)]
        if server is self._servers[0]:
            self._left = self._clock.monotonic()

    async def close(self) -> None:
        """Close every connection."""
        for server in (*self._servers, *self._former):
            await server.connections.close()

    def _in_order(self) -> Iterator[tuple[ServerAt, float]]:
        """Yield each server once, with a short timeout.

        Then, for slow links, the first of them with the full timeout.
        """
        servers, start = list(self._servers), self._servers.index(self._current)
        if start and self._clock.monotonic() - self._left >= FAILBACK_SECONDS:
            start = 0
        ordered = servers[start:] + servers[:start]
        for server in ordered:
            yield server, HANDSHAKE_TIMEOUT
        yield ordered[0], CONNECT_TIMEOUT
