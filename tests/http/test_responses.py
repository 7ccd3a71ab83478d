"""The parser of responses: limits on heads, interim responses, trailers, and bytes without a request."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable

import pytest

from tarmac.client.connections import ClientConnection
from tarmac.client.errors import Disconnected
from tarmac.http.clientrequest import StreamedReply
from tarmac.http.responseprotocol import MAX_HEAD, ConnectionBroken, ResponseProtocol

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"
BROKEN = (ConnectionBroken, Disconnected)

client_of_any_kind = pytest.mark.parametrize("make", [ResponseProtocol, StreamedReply, ClientConnection])
Make = Callable[[], ResponseProtocol]


class Wire(asyncio.Transport):
    """A transport that sends nowhere and knows whether it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def requested(make: Make) -> tuple[ResponseProtocol, Wire]:
    wire, client = Wire(), make()
    client.connection_made(wire)
    client.send(b"GET / HTTP/1.1\r\n\r\n")
    return client, wire


async def whole(client: ResponseProtocol) -> bytes:
    async with asyncio.timeout(5):
        await client.head()
        body = b""
        while chunk := await client.next_chunk():
            body += chunk
        return body


@client_of_any_kind
async def test_a_response_is_the_same_however_it_is_cut(make: Make) -> None:
    for size in (1, 3, 1000):
        client, wire = requested(make)
        for at in range(0, len(OK), size):
            client.data_received(OK[at : at + size])
        assert (await whole(client), client.status, client.header("content-length")) == (b"ok", 200, "2")
        assert not wire.closed


async def test_a_response_before_the_request_is_accepted_from_a_fresh_connection_only() -> None:
    reply, pooled = StreamedReply(), ClientConnection()
    for client in (reply, pooled):
        client.connection_made(Wire())
        client.data_received(OK)
        client.send(b"GET / HTTP/1.1\r\n\r\n")
    assert await whole(reply) == b"ok"
    with pytest.raises(Disconnected, match="bytes behind the end"):
        await whole(pooled)


@client_of_any_kind
async def test_interim_responses_leave_no_headers(make: Make) -> None:
    client, _ = requested(make)
    client.data_received(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK)
    assert await whole(client) == b"ok"
    assert client.header("link") == ""
    assert not isinstance(client, StreamedReply) or client.fields == [("Content-Length", "2")]


@client_of_any_kind
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * MAX_HEAD + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * MAX_HEAD,
        b"HTTP/1.1 100 Continue\r\n\r\n" * MAX_HEAD,
        b"HTTP/1.1 200 " + b"O" * 2 * MAX_HEAD,
        CHUNKED + b"0\r\nTrailer: " + b"x" * 2 * MAX_HEAD,
        CHUNKED + b"2;extension=" + b"x" * 2 * MAX_HEAD,
    ],
    ids=["one header", "headers", "interim responses", "status line", "trailer", "chunk extension"],
)
async def test_heads_above_the_limit_close_the_connection(make: Make, answer: bytes) -> None:
    for size in (1000, len(answer)):
        client, wire = requested(make)
        for at in range(0, len(answer), size):
            if not wire.closed:
                client.data_received(answer[at : at + size])
        assert wire.closed
        with pytest.raises(BROKEN, match=f"exceeded {MAX_HEAD} bytes"):
            await whole(client)


@client_of_any_kind
async def test_trailers_without_end_take_no_memory(make: Make) -> None:
    client, wire = requested(make)
    client.data_received(CHUNKED + b"0\r\n")
    line = b"X-Trailer: " + b"y" * 1000 + b"\r\n"
    tracemalloc.start()
    try:
        for _ in range(10_000):
            if not wire.closed:
                client.data_received(line)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert wire.closed


@client_of_any_kind
async def test_a_large_body_in_small_chunks_is_no_head(make: Make) -> None:
    client, wire = requested(make)
    client.data_received(CHUNKED)
    for _ in range(MAX_HEAD):
        client.data_received(b"1\r\nx\r\n")
        assert await client.next_chunk()
    client.data_received(b"0\r\n\r\n")
    assert await client.next_chunk() == b""
    assert not wire.closed


@client_of_any_kind
@pytest.mark.parametrize("early", [False, True], ids=["with the response", "later"])
async def test_a_response_that_was_not_requested_closes_the_connection(make: Make, early: bool) -> None:
    client, wire = requested(make)
    client.data_received(OK if early else OK + OK)
    if early:
        client.data_received(OK)
    assert await whole(client) == b"ok", "the response to the request stays"
    assert wire.closed
    assert not isinstance(client, ClientConnection) or not client.reusable


async def test_an_upgrade_that_was_not_requested_breaks_a_pooled_connection() -> None:
    client, wire = requested(ClientConnection)
    client.data_received(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nmore")
    assert wire.closed
    with pytest.raises(Disconnected, match="not requested"):
        await whole(client)
