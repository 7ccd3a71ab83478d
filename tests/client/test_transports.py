"""Requests and streams, in process and over sockets: data, broken connections, and slow readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tarmac.base.clock import ManualClock
from tarmac.client.errors import Disconnected, RequestTimeout
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.local import MAX_BUFFERED, LocalSink, LocalTransport
from tarmac.client.transport import Chunks, ClientRequest, LineSplitter, Transport
from tests.client.model_server import Answer, StreamAnswer


async def lines(chunks: Chunks) -> AsyncIterator[bytes]:
    cut = LineSplitter()
    async for chunk in chunks:
        assert isinstance(chunk, bytes)
        for line in cut.of(chunk):
            yield line


def local(answer: Any) -> LocalTransport:
    def handle(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        return answer

    return LocalTransport(handle)


async def test_a_local_answer_in_pieces_is_joined_and_its_headers_lowered() -> None:
    answer = Answer(200, [b"a", b"b"], [("Retry-After", "1")])  # pyright: ignore[reportArgumentType] as servers do
    reply = await local(answer).request(ClientRequest("GET", "/x"))
    assert (reply.status, reply.body, reply.headers) == (200, b"ab", {"retry-after": "1"})


async def test_a_local_answer_that_takes_too_long_is_a_timeout() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(RequestTimeout):
        await local(never()).request(ClientRequest("POST", "/x", timeout=0.01))


async def test_local_paths_arrive_decoded() -> None:
    seen: list[str] = []

    def handle(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        seen.append(path)
        return Answer(200, b"{}")

    await LocalTransport(handle).request(ClientRequest("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%2Fb"))
    assert seen == ["/apis/rbac.authorization.k8s.io/v1/clusterroles/a/b"]


class Source:
    """A streaming response under the test's control."""

    def __init__(self) -> None:
        self.sink: LocalSink | None = None
        self.stopped = 0

    def start(self, sink: LocalSink) -> Callable[[], None]:
        self.sink = sink

        def stop() -> None:
            self.stopped += 1

        return stop


async def test_a_local_stream_ends_once_whichever_side_ends_it() -> None:
    for server_ends in (True, False):
        source = Source()
        async with local(StreamAnswer(source.start)).stream(ClientRequest("GET", "/x")) as reply:
            assert source.sink is not None
            source.sink.write(b"one\ntwo\nthr")
            source.sink.write(b"ee\nunfinished")
            if server_ends:
                source.sink.close()
                assert [line async for line in lines(reply.chunks)] == [b"one", b"two", b"three"]
        assert source.stopped == 1
        assert source.sink.write(b"late") is False


async def test_a_local_reader_that_falls_too_far_behind_is_cut_off() -> None:
    source = Source()
    async with local(StreamAnswer(source.start)).stream(ClientRequest("GET", "/x")) as reply:
        assert source.sink is not None
        chunk = bytes(MAX_BUFFERED // 4)
        assert all(source.sink.write(chunk) for _ in range(4))
        assert source.sink.buffered == MAX_BUFFERED
        assert source.sink.write(b"x") is False
        with pytest.raises(Disconnected, match="cut off"):
            async for _ in reply.chunks:
                pass


async def test_a_local_reader_is_woken_by_a_write() -> None:
    source = Source()
    async with asyncio.timeout(5), local(StreamAnswer(source.start)).stream(ClientRequest("GET", "/x")) as reply:
        reading = asyncio.ensure_future(anext(aiter(reply.chunks)))
        await asyncio.sleep(0)
        assert source.sink is not None
        source.sink.write(b"now")
        assert await reading == b"now"


async def test_a_refused_stream_is_one_chunk() -> None:
    async with local(Answer(403, b"no")).stream(ClientRequest("GET", "/x")) as reply:
        assert reply.status == 403
        assert [chunk async for chunk in reply.chunks] == [b"no"]


@asynccontextmanager
async def served(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncGenerator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@asynccontextmanager
async def http(url: str, **config: Any) -> AsyncGenerator[Transport]:
    transport = HttpTransport(HttpConfig(url, **config))
    yield transport
    await transport.close()


async def test_requests_carry_method_query_body_and_credentials() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        text = [request.method, request.raw_path, (await request.read()).decode(), request.headers["authorization"]]
        return web.json_response(text, headers={"X-Seen": "1"})

    async with served(echo) as url, http(url, token="secret") as transport:
        reply = await transport.request(
            ClientRequest("PUT", "/a%2Fb", "x=1%2C2", {"content-type": "text/plain"}, b"body")
        )
        assert reply.body == b'["PUT", "/a%2Fb?x=1%2C2", "body", "Bearer secret"]'
        assert reply.headers["x-seen"] == "1"


async def test_a_stream_that_breaks_off_is_a_disconnect() -> None:
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\ntw")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(break_off) as url, http(url) as transport, transport.stream(ClientRequest("GET", "/x")) as reply:
        arriving = lines(reply.chunks)
        assert await anext(arriving) == b"one"
        with pytest.raises(Disconnected):
            await anext(arriving)


async def test_leaving_a_stream_ends_it_on_the_server_too() -> None:
    ended = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"tick\n")
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async with served(endless) as url, http(url) as transport:
        async with transport.stream(ClientRequest("GET", "/x")) as reply:
            assert await anext(aiter(reply.chunks))
        async with asyncio.timeout(5):
            await ended.wait()


async def test_nobody_listening_is_a_disconnect() -> None:
    async with http("http://127.0.0.1:1") as transport:
        with pytest.raises(Disconnected):
            await transport.request(ClientRequest("GET", "/x"))
        with pytest.raises(Disconnected):
            async with transport.stream(ClientRequest("GET", "/x")):
                pass


async def test_no_answer_in_time_is_a_timeout() -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with served(slow) as url, http(url) as transport:
        with pytest.raises(RequestTimeout):
            await transport.request(ClientRequest("GET", "/x", timeout=0.05))


async def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    async def who(request: web.Request) -> web.StreamResponse:
        return web.Response(text=request.headers["authorization"])

    file = tmp_path / "token"
    file.write_text("first\n")
    clock = ManualClock()
    async with served(who) as url:
        transport = HttpTransport(HttpConfig(url, token_file=str(file)), clock)
        assert (await transport.request(ClientRequest("GET", "/"))).body == b"Bearer first"
        file.write_text("second\n")
        clock.advance(59)
        assert (await transport.request(ClientRequest("GET", "/"))).body == b"Bearer first"
        clock.advance(1)
        assert (await transport.request(ClientRequest("GET", "/"))).body == b"Bearer second"
        await transport.close()


async def test_a_connection_is_used_again_once_its_answer_is_read() -> None:
    seen: list[object] = []

    async def note(request: web.Request) -> web.StreamResponse:
        seen.append(request.transport)
        return web.Response(body=b"x" * 100_000)

    async with served(note) as url, http(url) as transport:
        for _ in range(3):
            assert len((await transport.request(ClientRequest("GET", "/x"))).body) == 100_000
        assert len(set(seen)) == 1
        await asyncio.gather(*(transport.request(ClientRequest("GET", "/x")) for _ in range(3)))
        assert len(set(seen)) == 3


async def test_a_server_that_wants_no_second_request_gets_it_on_another_connection() -> None:
    async def once(request: web.Request) -> web.StreamResponse:
        return web.Response(text="x", headers={"connection": "close"})

    async with served(once) as url, http(url) as transport:
        for _ in range(2):
            assert (await transport.request(ClientRequest("POST", "/x", body=b"1"))).body == b"x"


async def raw(script: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> asyncio.Server:
    return await asyncio.start_server(script, "127.0.0.1", 0)


def address(server: asyncio.Server) -> str:
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def test_an_idle_connection_that_died_costs_a_reader_nothing_and_is_never_tried_twice_by_a_creator() -> None:
    """The server answers one request on each connection and closes it on the second."""
    served = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served
        await reader.readuntil(b"\r\n\r\n")
        served += 1
        writer.write(ANSWER)
        await reader.read(1)
        writer.close()

    server = await raw(script)
    async with server, http(address(server)) as transport:
        assert (await transport.request(ClientRequest("GET", "/1"))).body == b"ok"
        assert (await transport.request(ClientRequest("GET", "/2"))).body == b"ok"
        assert served == 2
        with pytest.raises(Disconnected):
            await transport.request(ClientRequest("POST", "/3", body=b"x"))
        assert served == 2


async def test_compressed_answers_are_unpacked_whole_and_in_pieces() -> None:
    import gzip

    text = b"".join(b"%d\n" % number for number in range(20_000))

    async def packed(request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(text), headers={"content-encoding": "gzip"})

    async with served(packed) as url, http(url) as transport:
        assert (await transport.request(ClientRequest("GET", "/x"))).body == text
        async with transport.stream(ClientRequest("GET", "/x")) as reply:
            assert b"".join([chunk async for chunk in reply.chunks if isinstance(chunk, bytes)]) == text


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nall there is")
        writer.close()

    server = await raw(script)
    async with server, http(address(server)) as transport:
        assert (await transport.request(ClientRequest("GET", "/x"))).body == b"all there is"


async def test_replies_that_are_not_http_raise_disconnected() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nonsense\r\n")
        writer.close()

    server = await raw(script)
    async with server, http(address(server)) as transport:
        with pytest.raises(Disconnected):
            await transport.request(ClientRequest("GET", "/x"))


async def test_a_reader_that_does_not_read_holds_the_sender_up() -> None:
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
                sent += 1 << 16
        except ConnectionError:
            writer.close()

    server = await raw(script)
    async with server, http(address(server)) as transport, transport.stream(ClientRequest("GET", "/x")) as reply:
        await asyncio.sleep(0.5)
        assert sent < 32 << 20
        assert len(await anext(aiter(reply.chunks))) > 0  # pyright: ignore[reportArgumentType] bytes over sockets


async def test_a_token_file_that_is_gone_is_a_disconnect(tmp_path: Path) -> None:
    async with http("http://127.0.0.1:1", token_file=str(tmp_path / "gone")) as transport:
        with pytest.raises(Disconnected, match="token"):
            await transport.request(ClientRequest("GET", "/x"))
