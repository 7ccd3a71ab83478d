"""Stalled clients are disconnected; handlers that take too long are cancelled; idle connections stay open."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Request, Response
from tests.http.conftest import Server, eventually, read_answer

QUICK = ListenerLimits(sweep_interval=0.02)


def ok(request: Request) -> Response:
    return Response(200, b"{}")


async def test_a_connection_that_says_nothing_stays_for_two_minutes_at_least() -> None:
    assert ListenerLimits().idle_time >= 120


@pytest.mark.parametrize(
    ("data", "limits"),
    [
        (b"", replace(QUICK, idle_time=0.1)),
        (b"GET / HTTP/1.1\r\nHost:", replace(QUICK, head_time=0.1)),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", replace(QUICK, body_time=0.1)),
        (b"\r\n\r\n\r\n", replace(QUICK, idle_time=0.1)),
    ],
)
async def test_a_stalled_client_is_cut(server: Server, data: bytes, limits: ListenerLimits) -> None:
    listener = await server.start(ok, limits)
    _, writer = await server.connect()
    writer.write(data)
    await eventually(lambda: len(listener.connections) == 1)
    await eventually(lambda: not listener.connections)
    writer.close()


async def test_sending_slowly_does_not_buy_time(server: Server) -> None:
    listener = await server.start(ok, replace(QUICK, head_time=0.15))
    reader, writer = await server.connect()
    writer.write(b"GET / HTTP/1.1\r\n")
    await eventually(lambda: len(listener.connections) == 1)
    while listener.connections:
        writer.write(b"X-Slow: loris\r\n")
        await asyncio.sleep(0.02)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await read_answer(reader)
    writer.close()


async def test_a_connection_is_reused_after_its_idle_time_was_renewed_by_a_request(server: Server) -> None:
    await server.start(ok, replace(QUICK, idle_time=0.4))
    reader, writer = await server.connect()
    for _ in range(4):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await read_answer(reader))[0] == 200
        await asyncio.sleep(0.15)
    writer.close()


async def test_a_read_that_takes_too_long_is_cancelled_and_answered_504(server: Server) -> None:
    cancelled: list[str] = []

    async def stuck(request: Request) -> Response:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(request.path)
            raise
        return Response(200)

    await server.start(stuck, replace(QUICK, answer_time=0.1))
    reader, writer = await server.connect()
    writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    status, _, body = await read_answer(reader)
    assert (status, json.loads(body)["reason"]) == (504, "Timeout")
    assert json.loads(body)["message"] == "Timeout: request did not complete within the allotted timeout"
    await eventually(lambda: cancelled == ["/slow"])
    writer.close()


async def test_a_write_that_takes_too_long_is_answered_504_but_runs_to_its_end(server: Server) -> None:
    done = asyncio.Event()
    release = asyncio.Event()

    async def write(request: Request) -> Response:
        await release.wait()
        done.set()
        return Response(201)

    await server.start(write, replace(QUICK, answer_time=0.1))
    reader, writer = await server.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert (await read_answer(reader))[0] == 504
    release.set()
    await asyncio.wait_for(done.wait(), 2)
    writer.close()


async def test_a_client_that_does_not_take_its_answer_is_cut(server: Server) -> None:
    listener = await server.start(lambda request: Response(200, b"x" * 50_000_000), replace(QUICK, write_time=0.1))
    _, writer = await server.connect(limit=1024)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await eventually(lambda: len(listener.connections) == 1)
    await eventually(lambda: not listener.connections)
    writer.transport.abort()
