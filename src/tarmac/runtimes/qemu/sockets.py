"""Connections to the sockets of a machine's process.

The folder of the sockets is the process's own: one that a guest has taken over could put a link there in a socket's
place, and whoever connects would speak, with the agent's rights, to any socket of the host. So it is the listener that
counts: it must run as the machine's user, and is asked before a byte is sent.
"""

from __future__ import annotations

import asyncio
import socket
import struct

_CREDENTIALS = struct.Struct("3i")
_SECONDS = 5.0


async def connect(path: str, user: int | None, seconds: float = _SECONDS) -> socket.socket:
    """A connected, non-blocking socket. Without `user` anybody may listen. Raises OSError, TimeoutError included."""
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
    """The user of the process that listens at the other end."""
    _pid, user, _group = _CREDENTIALS.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user
