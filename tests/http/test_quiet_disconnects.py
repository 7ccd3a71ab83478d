"""Clients that leave during a response cause no lines in the log: neither ours nor the transports'."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Answer, Request, Response, Stream, StreamResponse
from tests.http.conftest import Server, eventually

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CLIENTS = 20


def large(_request: Request) -> Answer:
    return Response(200, [bytes(300_000)] * 30)


def pipelined(_request: Request) -> Answer:
    return Response(200, bytes(30_000))


class Events:
    """A watch that keeps writing, many events in each turn of the loop, until it is closed."""

    def __init__(self) -> None:
        self.running = 0

    def __call__(self, _request: Request) -> Answer:
        return StreamResponse(self._start)

    def _start(self, stream: Stream) -> Callable[[], None]:
        loop, self.running = asyncio.get_running_loop(), self.running + 1

        def write() -> None:
            for _ in range(20):
                if not stream.write(bytes(10_000)):
                    return
            loop.call_later(0.001, write)

        def over() -> None:
            self.running -= 1

        write()
        return over


@pytest.mark.parametrize("how", ["close", "abort"])
@pytest.mark.parametrize("what", ["large", "pipelined", "events"])
async def test_clients_that_leave_in_the_middle_of_their_answers(
    what: str, how: str, server: Server, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The client reads some bytes, so that responses have started, and no more, so that they block."""
    caplog.set_level(logging.WARNING)
    events = Events()
    handlers = {"large": large, "pipelined": pipelined, "events": events}
    listener = await server.start(handlers[what], ListenerLimits(stream_buffer=1 << 30, stream_buffers=1 << 31))
    for _ in range(CLIENTS):
        reader, writer = await server.connect(limit=1000)
        writer.write(GET * (60 if what == "pipelined" else 1))
        await reader.readexactly(100)
        await asyncio.sleep(0.005)
        if how == "close":
            writer.close()
        else:
            writer.transport.abort()
    await eventually(lambda: not listener.connections and not events.running)
    assert [record.getMessage() for record in caplog.records] == []
    assert capfd.readouterr().err == ""
