"""A graceful stop: no new requests, watches end in order, running requests finish, in bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tarmac.http.messages import Request, Response, Stream, StreamResponse
from tests.http.conftest import Server, eventually, read_answer, read_chunk

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_idle_connections_are_closed_at_once(server: Server) -> None:
    listener = await server.start(lambda request: Response(200))
    reader, writer = await server.connect()
    writer.write(GET)
    await read_answer(reader)
    await asyncio.wait_for(listener.stop(grace=5), 2)
    assert await reader.read() == b""


async def test_no_new_connections_are_taken(server: Server) -> None:
    listener = await server.start(lambda request: Response(200))
    await listener.stop(grace=1)
    with pytest.raises(OSError):
        await server.connect()


async def test_watchers_see_an_orderly_end(server: Server) -> None:
    ended: list[bool] = []

    def start(stream: Stream) -> Callable[[], None]:
        stream.write(b"event")
        return lambda: ended.append(True)

    listener = await server.start(lambda request: StreamResponse(start))
    reader, writer = await server.connect()
    writer.write(GET)
    await reader.readuntil(b"\r\n\r\n")
    await asyncio.wait_for(listener.stop(grace=5), 2)
    assert [await read_chunk(reader), await read_chunk(reader)] == [b"event", b""]
    assert await reader.read() == b""
    assert ended == [True]


async def test_requests_under_way_are_answered(server: Server) -> None:
    release = asyncio.Event()

    async def slow(request: Request) -> Response:
        await release.wait()
        return Response(200, b"done")

    listener = await server.start(slow)
    reader, writer = await server.connect()
    writer.write(GET)
    await eventually(lambda: len(listener.tasks) == 1)
    stopping = asyncio.create_task(listener.stop(grace=5))
    await asyncio.sleep(0.01)
    release.set()
    _, headers, body = await read_answer(reader)
    assert (body, headers["connection"]) == (b"done", "close")
    await asyncio.wait_for(stopping, 2)


async def test_stuck_requests_are_cut_after_the_grace_period(server: Server) -> None:
    async def stuck(request: Request) -> Response:
        await asyncio.Event().wait()
        return Response(200)

    listener = await server.start(stuck)
    _, writer = await server.connect()
    writer.write(GET)
    await eventually(lambda: len(listener.tasks) == 1)
    await asyncio.wait_for(listener.stop(grace=0.05), 2)
    assert not listener.tasks
    await eventually(lambda: not listener.connections)
