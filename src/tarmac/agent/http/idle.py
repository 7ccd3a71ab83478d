"""Closes idle streams, such as those of sleeping or forgotten clients.

The kernel has the time of the last data sent and received of every connection, independent of the protocol. So a
client's pings count as activity, as in runtimes, and no byte is counted here.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from weakref import ref

from tarmac.http.messages import Answer, UpgradeResponse

_POLL_INTERVAL = 60.0
_TCP_INFO = struct.Struct("@8B9I4I")  # of linux/tcp.h, up to tcpi_last_ack_recv
_LAST_SENT, _LAST_RECEIVED = 17, 19  # tcpi_last_data_sent, tcpi_last_data_recv; milliseconds


def until_idle(answer: Answer, seconds: float) -> Answer:
    """Return the response; if it is a stream, abort it after this many idle seconds."""
    if not isinstance(answer, UpgradeResponse):
        return answer
    begin = answer.start

    def start(client: asyncio.Transport, rest: bytes) -> None:
        begin(client, rest)
        _watch(_weakly(client), seconds)

    return UpgradeResponse(start, answer.headers, answer.abandon)


def _weakly(client: asyncio.Transport) -> Callable[[], asyncio.Transport | None]:
    try:
        return ref(client)
    except TypeError:  # uvloop's transports over TLS: kept until the next check, a minute at most
        return lambda: client


def _watch(watched: Callable[[], asyncio.Transport | None], seconds: float) -> None:
    """Check periodically. Holds only a weak reference: streams may come and go by the thousand."""
    client = watched()
    if client is None or client.is_closing():
        return
    left = seconds - _idle_seconds(client.get_extra_info("socket"))
    if left <= 0:
        client.abort()
        return
    asyncio.get_running_loop().call_later(min(left, _POLL_INTERVAL), _watch, watched, seconds)


def _idle_seconds(connection: socket.socket) -> float:
    """Return the seconds since data was last sent or received."""
    info = _TCP_INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    return min(info[_LAST_SENT], info[_LAST_RECEIVED]) / 1000
