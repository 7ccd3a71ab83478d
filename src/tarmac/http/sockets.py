"""What every socket of ours is told, and what can be asked of it."""

from __future__ import annotations

import asyncio
import socket


def notice_dead_peer(of: socket.socket) -> None:
    """Have the kernel find peers that vanished without a word."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def shared(of: socket.socket) -> None:
    """The same, of a port that several processes of one user listen on."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    notice_dead_peer(of)


def untaken(transport: asyncio.Transport) -> int:
    """Bytes that the kernel has not taken yet; none once it is closing, when some transports refuse to tell."""
    return 0 if transport.is_closing() else transport.get_write_buffer_size()
