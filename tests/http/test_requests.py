"""Requests as handlers see them, and the responses as clients get them."""

from __future__ import annotations

import asyncio

from tarmac.http.messages import Request, Response
from tests.http.conftest import Server, read_answer


def echo(request: Request) -> Response:
    text = f"{request.method} {request.path} {request.query} {len(request.body)}"
    return Response(200, text.encode(), "text/plain")


async def exchange(server: Server, data: bytes, answers: int = 1) -> list[tuple[int, dict[str, str], bytes]]:
    reader, writer = await server.connect()
    writer.write(data)
    result = [await read_answer(reader) for _ in range(answers)]
    writer.close()
    await writer.wait_closed()
    return result


async def test_a_request_is_answered(server: Server) -> None:
    await server.start(echo)
    [(status, headers, body)] = await exchange(server, b"GET /api/v1?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body) == (200, b"GET /api/v1 watch=1 0")
    assert headers["content-type"] == "text/plain"
    assert headers["content-length"] == str(len(body))
    assert headers["date"].endswith("GMT")
    assert headers["cache-control"] == "no-cache, private"


async def test_paths_are_decoded_and_queries_are_not(server: Server) -> None:
    await server.start(echo)
    [(_, _, body)] = await exchange(server, b"GET /a%2Fb%20c?x=%20 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert body == b"GET /a/b c x=%20 0"


async def test_the_absolute_form_of_proxies_is_understood(server: Server) -> None:
    await server.start(echo)
    [(_, _, body)] = await exchange(server, b"GET http://x:1/a?b HTTP/1.1\r\nHost: x\r\n\r\n")
    assert body == b"GET /a b 0"


async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    async def later(request: Request) -> Response:
        await asyncio.sleep(0.01 if request.path == "/1" else 0)
        return echo(request)

    await server.start(lambda request: later(request) if request.path != "/2" else echo(request))
    data = b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(1, 5))
    answers = await exchange(server, data, 4)
    assert [body for _, _, body in answers] == [b"GET /%d  0" % n for n in range(1, 5)]


async def test_a_thousand_pipelined_requests_are_all_answered(server: Server) -> None:
    async def later(request: Request) -> Response:
        return echo(request)

    await server.start(later)
    answers = await exchange(server, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, 1000)
    assert {status for status, _, _ in answers} == {200}


async def test_a_request_in_many_small_pieces_is_one_request(server: Server) -> None:
    await server.start(echo)
    reader, writer = await server.connect()
    for byte in b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    assert (await read_answer(reader))[2] == b"POST /x  3"
    writer.close()


async def test_chunked_bodies_are_joined_and_trailers_ignored(server: Server) -> None:
    seen: list[Request] = []

    def keep(request: Request) -> Response:
        seen.append(request)
        return Response(201)

    await server.start(keep)
    data = (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nFrom: t\r\n\r\n"
    )
    [(status, _, _)] = await exchange(server, data)
    assert status == 201
    assert seen[0].body == b"abcde"
    assert "from" not in seen[0].headers


async def test_header_names_are_lower_case_and_repeated_ones_joined(server: Server) -> None:
    seen: list[Request] = []

    def keep(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    await server.start(keep)
    accept = b"ACCEPT: a\r\nAccept: b\r\n"
    groups = b"Impersonate-Group: one, two\r\nimpersonate-group: three\r\n"
    await exchange(server, b"GET / HTTP/1.1\r\nHost: x\r\n" + accept + groups + b"\r\n")
    assert seen[0].headers["accept"] == "a, b"
    assert seen[0].headers["impersonate-group"] == "one, two\nthree"
    assert seen[0].peer_address == "127.0.0.1"


async def test_expect_continue_is_granted_before_the_body(server: Server) -> None:
    await server.start(echo)
    reader, writer = await server.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"ok")
    assert (await read_answer(reader))[2] == b"POST /  2"
    writer.close()


async def test_head_sends_the_length_but_no_body(server: Server) -> None:
    await server.start(echo)
    data = b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n"
    reader, writer = await server.connect()
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"Content-Length: 10\r\n" in head
    assert (await read_answer(reader))[2] == b"GET /y  0"
    writer.close()


async def test_http_1_0_closes_unless_asked_to_stay(server: Server) -> None:
    await server.start(echo)
    reader, writer = await server.connect()
    writer.write(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert (await read_answer(reader))[1]["connection"] == "keep-alive"
    writer.write(b"GET /b HTTP/1.0\r\n\r\n")
    assert (await read_answer(reader))[1]["connection"] == "close"
    assert await reader.read() == b""
    writer.close()


async def test_connection_close_is_honoured(server: Server) -> None:
    await server.start(echo)
    reader, writer = await server.connect()
    writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_answer(reader))[1]["connection"] == "close"
    assert await reader.read() == b""
    writer.close()


async def test_repeated_and_changed_headers_are_told_apart(server: Server) -> None:
    def show(request: Request) -> Response:
        return Response(200, f"{request.path} {request.query} {request.headers.get('accept')}".encode())

    await server.start(show)
    reader, writer = await server.connect()
    seen: list[bytes] = []
    for path, accept in (("/a", "x"), ("/b?c=d", "x"), ("/%41", "x"), ("/a", "y"), ("/a", "x"), ("http://h/a?q", "x")):
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\n\r\n".encode())
        seen.append((await read_answer(reader))[2])
    assert seen == [b"/a  x", b"/b c=d x", b"/A  x", b"/a  y", b"/a  x", b"/a q x"]


async def test_a_known_header_block_is_only_that_at_the_end_of_a_get(server: Server) -> None:
    await server.start(echo)
    block = b"Host: x\r\nAccept: y\r\n\r\n"
    known = b"GET /known HTTP/1.1\r\n" + block
    reader, writer = await server.connect()
    for data, answers in (
        (known, [b"GET /known  0"]),
        (known + known, [b"GET /known  0"] * 2),
        (b"POST /p HTTP/1.1\r\nContent-Length: 3\r\nHost: x\r\n\r\nabc", [b"POST /p  3"]),
        (known, [b"GET /known  0"]),
        (b"GET /body HTTP/1.1\r\nContent-Length: 2\r\n" + block + b"ab", [b"GET /body  2"]),
        (b"HEAD /h HTTP/1.1\r\n" + block, []),
        (known, [b"GET /known  0"]),
    ):
        writer.write(data)
        if data.startswith(b"HEAD"):
            await reader.readuntil(b"\r\n\r\n")
        assert [(await read_answer(reader))[2] for _ in answers] == answers
    writer.write(b"GET /sp ace HTTP/1.1\r\n" + block)
    assert (await read_answer(reader))[0] == 400
