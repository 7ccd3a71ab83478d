"""The outside server of `tarmac up --outside`: it tells each client its source address.

It runs in this process, with sockets in the outside's namespace. On TCP it sends the address at once and again after
each line, until the client closes; on UDP it answers each datagram.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tarmac.base.tasks import Tasks
from tarmac.datapath import hosts
from tarmac.datapath.linux import namespaces

PORT: Final = 8000
_MAX_LINE: Final = 1024
_MAX_CONNECTIONS: Final = 256  # concurrent connections
_IDLE_TIMEOUT: Final = 600.0


@asynccontextmanager
async def outside_server(underlay: hosts.HostUnderlay, segment: hosts.Segment) -> AsyncGenerator[None]:
    """Serve during the block, and print the address."""
    path = hosts.outside_namespace(underlay)
    async with AsyncExitStack() as stack:
        for address in segment.servers:
            await _serve(stack, path, address)
        print(
            f"outside: an echo server at {' and '.join(segment.servers)} reports the client's address on TCP and UDP "
            f"{PORT}; its network: nsenter --net={path}",
            file=sys.stderr,
        )
        yield


async def _serve(stack: AsyncExitStack, path: Path, address: str) -> None:
    listening = await asyncio.to_thread(_bound, path, address, socket.SOCK_STREAM)
    connections = _Connections()
    server = await asyncio.start_server(connections.begin, sock=listening, limit=_MAX_LINE)
    stack.push_async_callback(connections.close)
    stack.callback(server.close)
    asked = await asyncio.to_thread(_bound, path, address, socket.SOCK_DGRAM)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(_Answers, sock=asked)
    stack.callback(transport.close)


def _bound(path: Path, address: str, kind: socket.SocketKind) -> socket.socket:
    with namespaces.inside(path):
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((address, PORT))
    except OSError:
        made.close()
        raise
    return made


def _reply(peer: tuple[Any, ...]) -> bytes:
    return f"you are {peer[0]} port {peer[1]}\n".encode()


class _Connections:
    """The connections of one listening socket."""

    def __init__(self) -> None:
        self._tasks = Tasks()

    def begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, unless there are too many."""
        if len(self._tasks) >= _MAX_CONNECTIONS:
            writer.close()
        else:
            self._tasks.begin(_talk(reader, writer), "answer a client of the echo server")

    async def close(self) -> None:
        """Close all connections."""
        await self._tasks.close()


async def _talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one connection until it is closed, idle or broken, or a line is too long."""
    with suppress(OSError, TimeoutError, ValueError):
        while True:
            writer.write(_reply(writer.get_extra_info("peername")))
            await writer.drain()
            async with asyncio.timeout(_IDLE_TIMEOUT):
                if not await reader.readline():
                    break
    writer.close()


class _Answers(asyncio.DatagramProtocol):
    """Answers datagrams."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        """Store the transport."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Send the source address back."""
        self._transport.sendto(_reply(addr), addr)
