"""Dialling pods where the cluster's own plugins connect them: from the node, over its routes."""

from __future__ import annotations

import asyncio
import socket

from tarmac.api.schema import JsonObject


async def from_the_node(pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
    """A connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made
