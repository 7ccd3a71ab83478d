"""Socket options of all connections, and their unsent bytes."""

from __future__ import annotations

import asyncio
import socket


def enable_keepalive(of: socket.socket) -> None:
    """Enable TCP keepalive, so that the kernel detects dead peers."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def reuse_port(of: socket.socket) -> None:
    """Also share the port among several processes of one user."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    enable_keepalive(of)


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Return the unsent bytes; 0 once it is closing, when some transports raise."""
    return 0 if transport.is_closing() else transport.get_write_buffer_size()
