"""What every socket of ours is told."""

from __future__ import annotations

import socket


def notice_dead_peer(of: socket.socket) -> None:
    """Have the kernel find peers that vanished without a word."""
    of.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
    of.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
