"""Ends streams on which nothing has passed for too long: their clients have gone to sleep, or have been forgotten.

What passes is asked of the kernel, which knows of every connection when data last came and went, whatever protocol it
carries. So pings of a client count, as they do with runtimes, and nothing is counted on the way.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from weakref import ref

from tarmac.http.messages import Answer, UpgradeResponse

_LOOK_SECONDS = 60.0
_TCP_INFO = struct.Struct("@8B9I4I")  # of linux/tcp.h, up to tcpi_last_ack_recv
_LAST_SENT, _LAST_RECEIVED = 17, 19  # tcpi_last_data_sent, tcpi_last_data_recv; milliseconds


def until_idle(answer: Answer, seconds: float) -> Answer:
    """The same answer; if it is a stream, it is cut off after so much silence."""
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
    except TypeError:  # uvloop's transports over TLS: kept until the next look, a minute at most
        return lambda: client


def _watch(watched: Callable[[], asyncio.Transport | None], seconds: float) -> None:
    """Look now and again. A stream that has ended is not kept for that: they may come and go by the thousand."""
    client = watched()
    if client is None or client.is_closing():
        return
    left = seconds - _silence(client.get_extra_info("socket"))
    if left <= 0:
        client.abort()
        return
    asyncio.get_running_loop().call_later(min(left, _LOOK_SECONDS), _watch, watched, seconds)


def _silence(connection: socket.socket) -> float:
    """Seconds since data went or came."""
    info = _TCP_INFO.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size))
    return min(info[_LAST_SENT], info[_LAST_RECEIVED]) / 1000
