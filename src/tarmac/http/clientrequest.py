"""The HTTP client: one request on its own connection, which may be upgraded to a different protocol.

    reply = await send_request(dial, head, timeout=30)
    async for chunk in reply.chunks(): ...        # an ordinary response, read with flow control
    transport, rest = reply.detach()              # after 101: the caller owns the connection

A `Dial` makes the connection: TCP, TLS, or a tunnel. No connection is kept for a second request, so nothing can be left
over from a first one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from tarmac.http.responseheads import encode_headers
from tarmac.http.responseprotocol import ConnectionBroken, ResponseProtocol
from tarmac.http.sockets import enable_keepalive

Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects a protocol, as the loop's `create_connection` does. Raises OSError."""


class StreamedReply(ResponseProtocol):
    """A response in progress, alone on its connection. `send_request` returns it once its head is known.

    `fields`: the headers as the server wrote them, repeated ones included.
    """

    __slots__ = ("fields",)

    def __init__(self, lenient: bool = False) -> None:
        super().__init__(lenient)
        self.fields: list[tuple[str, str]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if not self._has_head:
            self.fields.append((name.decode("latin-1"), value.decode("latin-1")))

    def _drop_head(self) -> None:
        super()._drop_head()
        self.fields = []

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, then close the connection. Raises ConnectionBroken when it breaks off."""
        try:
            while chunk := await self.next_chunk():
                yield chunk
        finally:
            self.close()

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises ConnectionBroken, also when it is larger than `limit`."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise ConnectionBroken(f"an answer of more than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    def detach(self) -> tuple[asyncio.Transport, bytes]:
        """Return the connection after 101, and the bytes received behind it so far. Set a new protocol at once."""
        assert self._rest is not None
        return self._transport, self._rest


def tcp(host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None) -> Dial:
    """A connection over TCP, with TLS if a context is given; `name` is the one to verify, if it is not the host's."""

    async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(factory, host, port, ssl=tls, server_hostname=name if tls else None)
        enable_keepalive(transport.get_extra_info("socket"))

    return dial


def hand_over(transport: asyncio.Transport, rest: bytes, factory: Callable[[], asyncio.Protocol]) -> None:
    """Attach a new protocol to an existing connection, with the bytes received on it already; for a `Dial`."""
    protocol = factory()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if rest:
        protocol.data_received(rest)


def request_head(method: str, target: str, host: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return a request without a body, or the head of one with a body."""
    return f"{method} {target} HTTP/1.1\r\n".encode() + encode_headers([("Host", host), *headers]) + b"\r\n"


async def send_request(dial: Dial, request: bytes, timeout: float, lenient: bool = False) -> StreamedReply:
    """Connect, send, and wait for the head of the response.

    `lenient`: see `ResponseProtocol`.
    Raises OSError (TimeoutError included), ConnectionBroken.
    """
    reply = StreamedReply(lenient)
    try:
        async with asyncio.timeout(timeout):
            await dial(lambda: reply)
            reply.send(request)
            await reply.head()
    except BaseException:
        reply.abort()
        raise
    return reply
