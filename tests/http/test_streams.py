"""Streamed responses: head at once, chunks as they come, an orderly end, and slow readers are disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tarmac.http.limits import ListenerLimits
from tarmac.http.messages import Chunk, Handler, Request, Response, Stream, StreamResponse
from tests.http.conftest import Server, eventually, read_answer, read_chunk

WATCH = b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n"


class Source:
    """Keeps the streams of all requests, and counts those that ended."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.ended = 0

    def handler(self) -> Handler:
        def start(stream: Stream) -> Callable[[], None]:
            self.streams.append(stream)
            return self.end

        return lambda request: StreamResponse(start) if request.path == "/watch" else Response(200, b"other")

    def end(self) -> None:
        self.ended += 1


async def test_the_head_is_sent_before_there_is_anything_to_say(server: Server) -> None:
    await server.start(Source().handler())
    reader, writer = await server.connect()
    writer.write(WATCH)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 2)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Transfer-Encoding: chunked\r\n" in head
    writer.close()


async def test_chunks_arrive_as_written_and_the_connection_lives_on(server: Server) -> None:
    source = Source()
    await server.start(source.handler())
    reader, writer = await server.connect()
    writer.write(WATCH)
    await reader.readuntil(b"\r\n\r\n")
    [stream] = source.streams
    assert stream.write(b"one\n")
    assert stream.write(b"")
    assert stream.write_chunk(Chunk(b"two\n"))
    assert [await read_chunk(reader), await read_chunk(reader)] == [b"one\n", b"two\n"]
    stream.close()
    assert source.ended == 1
    assert await read_chunk(reader) == b""
    assert not stream.write(b"three")
    writer.write(b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await read_answer(reader))[2] == b"other"
    writer.close()


async def test_a_stream_that_ends_in_its_start_is_a_whole_answer(server: Server) -> None:
    def start(stream: Stream) -> Callable[[], None]:
        stream.write(b"all")
        stream.close()
        return lambda: None

    await server.start(lambda request: StreamResponse(start))
    reader, writer = await server.connect()
    writer.write(WATCH * 2)
    assert (await read_answer(reader))[2] == b"all"
    assert (await read_answer(reader))[2] == b"all"
    writer.close()


async def test_many_streams_share_one_framed_chunk(server: Server) -> None:
    source = Source()
    await server.start(source.handler())
    clients = [await server.connect() for _ in range(20)]
    for reader, writer in clients:
        writer.write(WATCH)
        await reader.readuntil(b"\r\n\r\n")
    chunk = Chunk(b'{"type":"ADDED"}\n')
    assert all(stream.write_chunk(chunk) for stream in source.streams)
    assert [await read_chunk(reader) for reader, _ in clients] == [chunk.data] * 20
    for _, writer in clients:
        writer.close()


async def test_the_producer_hears_once_when_the_client_goes(server: Server) -> None:
    source = Source()
    listener = await server.start(source.handler())
    reader, writer = await server.connect()
    writer.write(WATCH)
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    await eventually(lambda: not listener.connections)
    assert source.ended == 1
    source.streams[0].close()
    assert source.ended == 1
    assert source.streams[0].buffered == 0


async def test_a_reader_that_is_too_slow_is_cut_off(server: Server) -> None:
    source = Source()
    listener = await server.start(source.handler(), ListenerLimits(stream_buffer=1_000_000))
    reader, writer = await server.connect(limit=1024)
    writer.write(WATCH)
    await reader.readuntil(b"\r\n\r\n")
    [stream] = source.streams
    chunk = Chunk(b"x" * 100_000)
    written = 0
    while stream.write_chunk(chunk):
        written += 1
        assert written < 500, "never disconnected"
        await asyncio.sleep(0)
    assert source.ended == 1
    await eventually(lambda: not listener.connections)
    writer.transport.abort()


async def test_many_slow_readers_share_what_may_wait_for_them(server: Server) -> None:
    source = Source()
    listener = await server.start(source.handler(), ListenerLimits(stream_buffers=20 * 600_000))
    clients = [await server.connect(limit=1024) for _ in range(20)]
    for reader, writer in clients:
        writer.write(WATCH)
        await reader.readuntil(b"\r\n\r\n")
    chunk, most = Chunk(b"x" * 50_000), 0
    for _ in range(400):
        for stream in source.streams:
            stream.write_chunk(chunk)
        most = max(most, sum(stream.buffered for stream in source.streams))
        await asyncio.sleep(0)
    assert source.ended == 20
    assert most < 20 * 800_000, "each alone might have had 8 MiB"
    await eventually(lambda: not listener.connections)
    assert listener.backlogs.slow == 0
    for _, writer in clients:
        writer.transport.abort()


async def test_one_large_first_write_does_not_cut_off_a_reader(server: Server) -> None:
    source = Source()
    await server.start(source.handler(), ListenerLimits(stream_buffer=100_000))
    reader, writer = await server.connect()
    writer.write(WATCH)
    await reader.readuntil(b"\r\n\r\n")
    assert source.streams[0].write(b"x" * 5_000_000)
    assert len(await read_chunk(reader)) == 5_000_000
    writer.close()


async def test_http_1_0_gets_the_bare_bytes_until_the_end(server: Server) -> None:
    source = Source()
    await server.start(source.handler())
    reader, writer = await server.connect()
    writer.write(b"GET /watch HTTP/1.0\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert b"chunked" not in head
    source.streams[0].write_chunk(Chunk(b"one"))
    source.streams[0].write(b"two")
    source.streams[0].close()
    assert await reader.read() == b"onetwo"
    writer.close()


async def test_a_handler_may_take_its_time_to_start_a_stream(server: Server) -> None:
    source = Source()
    inner = source.handler()

    async def later(request: Request) -> Response | StreamResponse:
        await asyncio.sleep(0)
        answer = inner(request)
        assert isinstance(answer, StreamResponse)
        return answer

    await server.start(later)
    reader, writer = await server.connect()
    writer.write(WATCH)
    await reader.readuntil(b"\r\n\r\n")
    source.streams[0].write(b"x")
    assert await read_chunk(reader) == b"x"
    writer.close()
