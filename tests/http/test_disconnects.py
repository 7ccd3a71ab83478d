"""A client that goes away costs nothing: reads are cancelled, writes finish, streams get the end."""

from __future__ import annotations

import asyncio

from tarmac.http.messages import Request, Response
from tests.http.conftest import Server, eventually


async def test_a_waiting_read_is_cancelled(server: Server) -> None:
    started = asyncio.Event()
    cancelled = asyncio.Event()

    async def stuck(request: Request) -> Response:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response(200)

    listener = await server.start(stuck)
    _, writer = await server.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await started.wait()
    writer.transport.abort()
    await asyncio.wait_for(cancelled.wait(), 2)
    await eventually(lambda: not listener.tasks and not listener.connections)


async def test_an_accepted_write_runs_to_its_end(server: Server) -> None:
    started, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write(request: Request) -> Response:
        started.set()
        await release.wait()
        finished.set()
        return Response(201)

    listener = await server.start(write)
    _, writer = await server.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    await started.wait()
    writer.transport.abort()
    await eventually(lambda: not listener.connections)
    release.set()
    await asyncio.wait_for(finished.wait(), 2)
    await eventually(lambda: not listener.tasks)


async def test_requests_still_waiting_their_turn_are_forgotten(server: Server) -> None:
    calls: list[str] = []
    started = asyncio.Event()

    async def stuck(request: Request) -> Response:
        calls.append(request.path)
        started.set()
        await asyncio.Event().wait()
        return Response(200)

    listener = await server.start(stuck)
    _, writer = await server.connect()
    writer.write(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\n\r\n")
    await started.wait()
    writer.transport.abort()
    await eventually(lambda: not listener.tasks)
    assert calls == ["/1"]
