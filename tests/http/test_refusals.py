"""Input that is no request, or too much of one: a Status the client can read, then the connection ends."""

from __future__ import annotations

import asyncio
import http.client
import json

import pytest

from tarmac.api.status import Conflict
from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Answer, Request, Response
from tests.http.conftest import Server, read_answer


def ok(request: Request) -> Response:
    return Response(200, b"{}")


async def send(server: Server, data: bytes) -> tuple[int, dict[str, str], dict[str, object]]:
    reader, writer = await server.connect()
    writer.write(data)
    status, headers, body = await read_answer(reader)
    writer.close()
    return status, headers, json.loads(body)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc",
    ],
)
async def test_malformed_requests_get_400(server: Server, data: bytes) -> None:
    await server.start(ok)
    status, headers, body = await send(server, data)
    assert (status, body["reason"], body["code"]) == (400, "BadRequest", 400)
    assert headers["connection"] == "close"


async def test_a_body_in_a_coding_nobody_reads_gets_501(server: Server) -> None:
    await server.start(ok)
    coding = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
    status, headers, body = await send(server, coding)
    assert (status, headers["connection"]) == (501, "close")
    assert body["message"] == 'unsupported transfer encoding "gzip, chunked", use "chunked"'


async def test_those_who_never_finish_their_bodies_keep_no_memory_from_others(server: Server) -> None:
    listener = await server.start(ok, ListenerLimits(unauthenticated_bodies=300_000, small_body=1000))
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n"
    _, first = await server.connect()
    first.write(head + bytes(150_000))
    while listener.shares.unauthenticated.held < 150_000:
        await asyncio.sleep(0.001)
    status, headers, body = await send(server, head + bytes(160_000))
    assert (status, body["reason"], headers["retry-after"]) == (429, "TooManyRequests", "1")
    small = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + bytes(900)
    assert (await send(server, small))[0] == 200
    first.close()
    while listener.shares.unauthenticated.held:
        await asyncio.sleep(0.001)
    assert (await send(server, head + bytes(200_000)))[0] == 200
    assert listener.shares.unauthenticated.held == 0


async def test_requests_before_the_malformed_one_are_answered_first(server: Server) -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.02)
        return Response(200)

    await server.start(slow)
    reader, writer = await server.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nNONSENSE\r\n\r\n")
    assert (await read_answer(reader))[0] == 200
    assert (await read_answer(reader))[0] == 400
    writer.close()


async def test_a_body_announced_as_too_large_gets_413(server: Server) -> None:
    await server.start(ok)
    status, _, body = await send(server, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3145729\r\n\r\n")
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
    assert body["message"] == "Request entity too large: limit is 3145728"


async def test_a_chunked_body_that_grows_too_large_gets_413(server: Server) -> None:
    await server.start(ok, ListenerLimits(body=10))
    head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert (await send(server, head + b"8\r\n12345678\r\n8\r\n12345678\r\n"))[0] == 413


async def test_a_client_that_sends_it_all_first_still_reads_the_413(server: Server) -> None:
    await server.start(ok)

    def post() -> int:
        if server.mode == "plain":
            connection = http.client.HTTPConnection("127.0.0.1", server.port)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.client_context())
        connection.request("POST", "/", body=b"x" * 12_000_000)
        status = connection.getresponse().status
        connection.close()
        return status

    assert await asyncio.to_thread(post) == 413


@pytest.mark.parametrize("data", [b"GET /" + b"x" * 70_000, b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 70_000])
async def test_endless_headers_get_431(server: Server, data: bytes) -> None:
    await server.start(ok)
    assert (await send(server, data))[0] == 431


async def test_many_headers_get_431(server: Server) -> None:
    await server.start(ok)
    lines = b"".join(b"X-%d: %b\r\n" % (n, b"y" * 100) for n in range(1000))
    assert (await send(server, b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n"))[0] == 431


async def test_a_handler_that_raises_an_api_error_answers_with_it(server: Server) -> None:
    def refuse(request: Request) -> Answer:
        raise Conflict("taken")

    await server.start(refuse)
    status, headers, body = await send(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body["message"], body["reason"]) == (409, "taken", "Conflict")
    assert "connection" not in headers


async def test_a_handler_that_breaks_answers_500_and_tells_no_secrets(server: Server) -> None:
    async def broken(request: Request) -> Answer:
        raise KeyError("password")

    await server.start(broken)
    status, _, body = await send(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body["reason"]) == (500, "InternalError")
    assert "password" not in str(body)


async def test_data_cannot_become_response_headers(plain_server: Server) -> None:
    await plain_server.start(lambda request: Response(200, headers=[("X", "a\r\nSet-Cookie: b")]))
    status, headers, _ = await send(plain_server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status == 500
    assert "set-cookie" not in headers
