"""Connections to the sockets of a machine's process.

The process can write to the directory of its sockets: one taken over by its guest could replace a socket by a link, and
the agent would connect, with its own privileges, to any socket of the host. So the peer is verified: it must run as the
machine's user, which is checked before a byte is sent.
"""

from __future__ import annotations

import asyncio
import socket
import struct

_CREDENTIALS = struct.Struct("3i")
_SECONDS = 5.0


async def connect(path: str, user: int | None, seconds: float = _SECONDS) -> socket.socket:
    """Return a connected, non-blocking socket. Without `user`, any peer is accepted. Raises OSError, TimeoutError."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        end.setblocking(False)
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_connect(end, path)
        if user is not None and _listener(end) != user:
            raise PermissionError("somebody else listens where the machine should")
    except BaseException:
        end.close()
        raise
    return end


def _listener(end: socket.socket) -> int:
    """Return the user id of the listening process."""
    _pid, user, _group = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user
