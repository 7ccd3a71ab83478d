"""Connections to the members of the cluster, made on demand and again after every loss.

There are two per member, one for calls and one for watches, so that a burst of events does not delay responses.
Concurrent callers share one dial.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio import Future
from enum import Enum, auto
from functools import partial
from typing import cast

from tarmac.base.tasks import Tasks
from tarmac.http.grpc import Code, GrpcConnection, GrpcError
from tarmac.http.tls import present
from tarmac.store.etcd.settings import EtcdSettings

_DIAL_TIMEOUT = 2.0
_KEEPALIVE_INTERVAL = 10.0  # etcd allows one every five seconds
_MAX_MESSAGE = 256 << 20


class ConnectionUse(Enum):
    """The purpose of a connection."""

    CALLS = auto()
    WATCHES = auto()


class MemberConnections:
    """The connections of one client."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._tls = _context(settings)
        self._made: dict[tuple[str, ConnectionUse], GrpcConnection] = {}
        self._dials: dict[tuple[str, ConnectionUse], Future[GrpcConnection]] = {}
        self._tasks = Tasks()

    async def close(self) -> None:
        """Close all connections."""
        await self._tasks.close()
        for connection in self._made.values():
            connection.close()
        self._made.clear()

    def ready(self, member: str, use: ConnectionUse) -> GrpcConnection | None:
        """Return the connection, if it is established."""
        connection = self._made.get((member, use))
        return connection if connection is not None and connection.usable else None

    async def get(self, member: str, use: ConnectionUse) -> GrpcConnection:
        """Return the connection, dialling if needed. Raises GrpcError."""
        key = member, use
        dial = self._dials.get(key)
        if dial is None:
            dial = self._dials[key] = self._tasks.track(self._dial(member, use), "connect to etcd")
            dial.add_done_callback(partial(self._dialled, key))
        return await asyncio.shield(dial)  # shielded: other callers wait for the same dial when this one is cancelled

    def _dialled(self, key: tuple[str, ConnectionUse], dial: Future[GrpcConnection]) -> None:
        del self._dials[key]
        if not dial.cancelled():
            dial.exception()  # retrieved, or asyncio logs it; every waiter got it, and there may be none left

    async def _dial(self, member: str, use: ConnectionUse) -> GrpcConnection:
        host, _, port = member.rpartition(":")
        host = host.strip("[]")
        loop = asyncio.get_running_loop()
        name = host if self._tls is not None else None
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT):
                made = await loop.create_connection(
                    partial(self._connection, member), host, int(port), ssl=self._tls, server_hostname=name
                )
        except TimeoutError as error:
            raise GrpcError(Code.UNAVAILABLE, f"no connection within {_DIAL_TIMEOUT:.0f} s") from error
        except (OSError, ValueError) as error:  # ValueError: an invalid host name
            raise GrpcError(Code.UNAVAILABLE, f"no connection: {error}") from error
        transport, connection = made
        if self._tls is not None:
            spoken = cast(ssl.SSLObject, transport.get_extra_info("ssl_object")).selected_alpn_protocol()
            if spoken != "h2":
                connection.close()
                raise GrpcError(Code.UNAVAILABLE, f"it speaks {spoken or 'something else'} over TLS, not h2")
        self._made[member, use] = connection
        return connection

    def _connection(self, member: str) -> GrpcConnection:
        scheme = "http" if self._tls is None else "https"
        return GrpcConnection(member, scheme=scheme, longest_message=_MAX_MESSAGE, keepalive=_KEEPALIVE_INTERVAL)


def _context(settings: EtcdSettings) -> ssl.SSLContext | None:
    """Return a TLS context with the given CA alone, and the client certificate if configured. Raises ValueError."""
    if settings.cacert is None:
        return None
    try:
        context = ssl.create_default_context(cadata=settings.cacert.decode())
        if settings.cert is not None and settings.key is not None:
            present(context, settings.cert, settings.key)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"etcd store: cacert, cert and key must be PEM, and key that of cert: {error}") from error
    context.set_alpn_protocols(["h2"])
    return context
