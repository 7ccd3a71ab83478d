"""Addresses on which a server listens, and its errors."""

from __future__ import annotations

import re
import socket

import pytest

from tarmac.http.listener import serve
from tarmac.http.messages import Request, Response


async def _nothing(_request: Request) -> Response:
    return Response(204, b"")


async def test_an_address_that_is_taken_is_named() -> None:
    """The error has a remedy, and the server keeps none of the sockets."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"127.0.0.1 port {port}: cannot listen: Address already in use; choose"):
            await serve(_nothing, None, "127.0.0.1", port)


async def test_a_host_that_does_not_exist_is_named() -> None:
    said = re.escape("nowhere.invalid port 6443: cannot listen: ")
    with pytest.raises(OSError, match=said):
        await serve(_nothing, None, "nowhere.invalid", 6443)


async def test_both_families_share_a_port_that_the_kernel_chooses() -> None:
    listener = await serve(_nothing, None, ["127.0.0.1", "::1"])
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, listener.port), timeout=5).close()
    await listener.stop()
