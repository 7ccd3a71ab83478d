"""Large responses: sliced, compressed on request, and never blocking other clients."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from tarmac.http.compression import accepts_gzip
from tarmac.http.messages import Request, Response
from tests.http.conftest import Server, read_answer

GZIP = b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"
PLAIN = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def ask(server: Server, request: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await server.connect()
    writer.write(request)
    return await read_answer(reader)


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 1_000_000, 6_000_000])
async def test_bodies_of_any_size_arrive_whole(server: Server, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    await server.start(lambda request: Response(200, body[:size]))
    assert (await ask(server, PLAIN))[2] == body[:size]


async def test_many_buffers_arrive_as_one_body(server: Server) -> None:
    parts = [b"%06d," % n * 20 for n in range(50_000)]
    await server.start(lambda request: Response(200, parts))
    status, headers, body = await ask(server, PLAIN)
    assert status == 200
    assert headers["content-length"] == str(len(body))
    assert body == b"".join(parts)


async def test_requests_behind_a_large_answer_wait_for_it(server: Server) -> None:
    await server.start(lambda request: Response(200, b"x" * 3_000_000 if request.path == "/" else b"small"))
    reader, writer = await server.connect()
    writer.write(PLAIN + b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len((await read_answer(reader))[2]) == 3_000_000
    assert (await read_answer(reader))[2] == b"small"


@pytest.mark.parametrize("size", [128 * 1024, 2_000_000])
async def test_large_bodies_are_compressed_when_asked_for(server: Server, size: int) -> None:
    await server.start(lambda request: Response(200, [b"tarmac"] * (size // 6 + 1), headers=[("X-A", "b")]))
    status, headers, body = await ask(server, GZIP)
    assert (status, headers["content-encoding"], headers["x-a"]) == (200, "gzip", "b")
    assert gzip.decompress(body) == b"tarmac" * (size // 6 + 1)
    assert "content-encoding" not in (await ask(server, PLAIN))[1]


async def test_small_bodies_are_not_compressed(server: Server) -> None:
    await server.start(lambda request: Response(200, b"x" * (128 * 1024 - 1)))
    assert "content-encoding" not in (await ask(server, GZIP))[1]


async def test_bodies_compressed_by_the_handler_are_left_alone(server: Server) -> None:
    ready = gzip.compress(bytes(300_000), compresslevel=0)
    await server.start(lambda request: Response(200, ready, headers=[("Content-Encoding", "gzip")]))
    assert (await ask(server, GZIP))[2] == ready


async def test_compressing_a_huge_body_does_not_hold_up_others(plain_server: Server) -> None:
    import random

    noise = random.Random(1).randbytes(1_000_000) * 30

    await plain_server.start(lambda request: Response(200, noise if request.path == "/" else b"quick"))
    large = asyncio.create_task(ask(plain_server, GZIP))
    await asyncio.sleep(0.02)
    status, _, body = await ask(plain_server, b"GET /quick HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body, large.done()) == (200, b"quick", False)
    assert len(gzip.decompress((await large)[2])) == 30_000_000


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0", False),
        ("identity", False),
        ("x-gzip-like", False),
        ("", False),
    ],
)
def test_accept_encoding_is_understood(header: str, wanted: bool) -> None:
    assert accepts_gzip({"accept-encoding": header}) is wanted


def test_no_header_is_no_wish() -> None:
    assert not accepts_gzip(Request("GET", "/").headers)
