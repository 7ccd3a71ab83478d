"""Connections of probes and hooks, with kubelet's error messages."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable

from tarmac.agent.model.poddependencies import Connector
from tarmac.api.schema import JsonObject
from tarmac.base.digits import port_number

_WORDS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ECONNRESET: "connection reset by peer",
}


def join(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def port_of(port: int | str, container: JsonObject) -> int:
    """Return a port's number, looked up by name in the container's ports. Raises ValueError."""
    if isinstance(port, int):
        number = port
    elif (written := port_number(port)) is not None:
        number = written
    else:
        named = (each["containerPort"] for each in container.get("ports") or () if each.get("name") == port)
        number = next(named, 0)
    if not 0 < number < 65536:
        raise ValueError(f"invalid port number: {number}")
    return number


async def dial(connect: Connector, pod: JsonObject, host: str, port: int, timeout: float) -> socket.socket:
    """Return a connected socket. Raises OSError with kubelet's message."""
    where = f"dial tcp {join(host, port)}"
    try:
        return await connect(pod, host, port, timeout)
    except TimeoutError as error:
        raise TimeoutError(f"{where}: i/o timeout") from error
    except OSError as error:
        raise OSError(f"{where}: connect: {wording(error)}") from error


def wording(error: BaseException) -> str:
    """Return the reason without the error number."""
    code = error.errno if isinstance(error, OSError) else None
    return (_WORDS.get(code) or os.strerror(code).lower()) if code else str(error)


async def attach(
    sock: socket.socket, factory: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None, host: str
) -> None:
    """Attach a protocol to a connected socket; close the socket on failure."""
    try:
        await asyncio.get_running_loop().create_connection(
            factory, sock=sock, ssl=tls, server_hostname=host if tls else None
        )
    except BaseException:  # cancelled during the handshake: no transport owns the socket yet
        sock.close()
        raise
