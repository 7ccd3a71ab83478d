"""gRPC calls, with gRPC's own library at the other end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.http.grpc import Code, GrpcConnection, GrpcError
from tarmac.http.grpc.calls import GrpcCall, prefixed
from tarmac.wire.http2.frames import END_HEADERS, END_STREAM, FrameType, frame, literals

LARGE = bytes(range(256)) * 20_000  # far more than any window lets through at once


class Peer:
    """A service `t.T` whose methods have the names of their behaviour."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.metadata: dict[str, Any] = {}
        self.remaining: float | None = None
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        one = {"Echo": self._echo, "Fail": self._fail, "Wait": self._wait}
        handlers: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(does) for name, does in one.items()}
        handlers["Count"] = grpc.unary_stream_rpc_method_handler(self._count)
        handlers["Talk"] = grpc.stream_stream_rpc_method_handler(self._talk)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
        self._server.add_insecure_port(f"unix://{socket}")

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float | None = None) -> None:
        await self._server.stop(grace)

    async def _echo(self, request: bytes, context: Any) -> bytes:
        self.metadata = dict(context.invocation_metadata())
        self.remaining = context.time_remaining()
        return request

    async def _fail(self, request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no “such” thing: 100 %")
        raise AssertionError

    async def _wait(self, request: bytes, context: Any) -> bytes:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return b""

    async def _count(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(int(request)):
            yield str(number).encode()
        if not int(request):
            await self._wait(request, context)

    async def _talk(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request[::-1]


@pytest.fixture
async def peer(tmp_path: Path) -> AsyncIterator[Peer]:
    made = Peer(tmp_path / "s")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def connection(peer: Peer) -> AsyncIterator[GrpcConnection]:
    made = await dial(peer)
    yield made
    made.close()


async def dial(peer: Peer, **settings: Any) -> GrpcConnection:
    loop = asyncio.get_running_loop()
    _, made = await loop.create_unix_connection(lambda: GrpcConnection("localhost", **settings), str(peer.socket))
    return made


@pytest.mark.parametrize("message", [b"", b"hello", LARGE], ids=["empty", "short", "large"])
async def test_a_message_goes_there_and_back(connection: GrpcConnection, message: bytes) -> None:
    assert await connection.call("t.T/Echo", message, 20) == message


async def test_calls_share_a_connection(connection: GrpcConnection) -> None:
    messages = [str(number).encode() * 10_000 for number in range(50)]
    assert await asyncio.gather(*(connection.call("t.T/Echo", each, 20) for each in messages)) == messages


async def test_metadata_and_deadline_are_told(connection: GrpcConnection, peer: Peer) -> None:
    await connection.call("t.T/Echo", b"", 50, [("colour", "green" * 100)])
    assert peer.metadata["colour"] == "green" * 100
    assert peer.remaining is not None
    assert 40 < peer.remaining <= 50


async def test_a_failure_has_the_code_and_the_words_of_the_peer(connection: GrpcConnection) -> None:
    with pytest.raises(GrpcError, match=r"^no “such” thing: 100 %$") as failed:
        await connection.call("t.T/Fail", b"", 20)
    assert failed.value.code == Code.NOT_FOUND


async def test_a_method_that_there_is_not(connection: GrpcConnection) -> None:
    with pytest.raises(GrpcError) as failed:
        await connection.call("t.T/Nothing", b"", 20)
    assert failed.value.code == Code.UNIMPLEMENTED


async def test_a_call_that_takes_too_long_is_ended_at_both_ends(connection: GrpcConnection, peer: Peer) -> None:
    with pytest.raises(GrpcError) as failed:
        await connection.call("t.T/Wait", b"", 0.05)
    assert failed.value.code == Code.DEADLINE_EXCEEDED
    await asyncio.wait_for(peer.cancelled.wait(), 10)
    assert await connection.call("t.T/Echo", b"still there", 20) == b"still there"


async def test_a_cancelled_call_is_cancelled_at_the_other_end(connection: GrpcConnection, peer: Peer) -> None:
    call = asyncio.create_task(connection.call("t.T/Wait", b"", None))
    await peer.begun.wait()
    call.cancel()
    await asyncio.wait_for(peer.cancelled.wait(), 10)
    assert call.cancelled()


async def test_a_stream_is_told_to_its_end(connection: GrpcConnection) -> None:
    told = [message async for message in connection.stream("t.T/Count", b"1000")]
    assert told == [str(number).encode() for number in range(1000)]


async def test_a_stream_that_is_left_is_cancelled_at_the_other_end(connection: GrpcConnection, peer: Peer) -> None:
    async with aclosing(connection.stream("t.T/Count", b"0")) as messages:
        waiting = asyncio.ensure_future(anext(messages))
        await peer.begun.wait()
        waiting.cancel()
        await asyncio.wait((waiting,))
    await asyncio.wait_for(peer.cancelled.wait(), 10)


async def test_an_answer_beyond_the_limit_is_not_read(peer: Peer) -> None:
    connection = await dial(peer, longest_message=1000)
    with pytest.raises(GrpcError) as failed:
        await connection.call("t.T/Echo", LARGE, 20)
    assert failed.value.code == Code.RESOURCE_EXHAUSTED
    assert await connection.call("t.T/Echo", b"short", 20) == b"short"
    connection.close()


async def test_a_lost_connection_fails_what_is_under_way_and_what_follows(
    connection: GrpcConnection, peer: Peer
) -> None:
    call = asyncio.create_task(connection.call("t.T/Wait", b"", None))
    await peer.begun.wait()
    await peer.stop()
    for each in (call, connection.call("t.T/Echo", b"", 20)):
        with pytest.raises(GrpcError) as failed:
            await each
        assert failed.value.code in (Code.UNAVAILABLE, Code.CANCELLED)
    assert not connection.usable


async def test_a_peer_that_goes_away_lets_calls_finish_and_takes_no_new_ones(
    connection: GrpcConnection, peer: Peer
) -> None:
    call = asyncio.create_task(connection.call("t.T/Wait", b"", None))
    await peer.begun.wait()
    stopping = asyncio.create_task(peer.stop(grace=30))
    async with asyncio.timeout(10):
        while connection.usable:
            await asyncio.sleep(0.01)
    assert not call.done()
    call.cancel()
    await stopping
    await asyncio.wait((call,))


async def test_a_peer_that_speaks_something_else(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(answer, tmp_path / "s"):
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_unix_connection(lambda: GrpcConnection("localhost"), str(tmp_path / "s"))
        with pytest.raises(GrpcError, match="does not speak HTTP/2") as failed:
            await connection.call("t.T/Echo", b"", 20)
        assert failed.value.code == Code.UNAVAILABLE


async def test_questions_and_answers_go_on_side_by_side(connection: GrpcConnection) -> None:
    stream = connection.open("t.T/Talk")
    for word in (b"one", b"two" * 100_000):
        stream.ask(word)
        assert await stream.answers() == [word[::-1]]
    stream.ask(b"last", last=True)
    assert [await stream.answers(), await stream.answers()] == [[b"tsal"], []]


async def test_a_conversation_that_is_left_is_over_at_once(connection: GrpcConnection) -> None:
    stream = connection.open("t.T/Talk")
    stream.ask(b"one")
    await stream.answers()
    stream.cancel()
    stream.ask(b"two")
    assert await connection.call("t.T/Echo", b"still there", 20) == b"still there"


class Silent(asyncio.Protocol):
    """A peer that accepts all input and sends the test's bytes."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.writes.append(data)


async def silent(tmp_path: Path, **settings: Any) -> tuple[Silent, GrpcConnection, asyncio.Server]:
    loop, peer = asyncio.get_running_loop(), Silent()
    server = await loop.create_unix_server(lambda: peer, str(tmp_path / "s"))
    _, made = await loop.create_unix_connection(lambda: GrpcConnection("localhost", **settings), str(tmp_path / "s"))
    return peer, made, server


class Wire(asyncio.Transport):
    """A transport that records its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def abort(self) -> None:
        pass


async def test_calls_of_one_turn_are_written_together() -> None:
    connection, wire = GrpcConnection("localhost"), Wire()
    connection.connection_made(wire)
    calls = [asyncio.ensure_future(connection.call("t.T/Echo", b"x", 20)) for _ in range(50)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(wire.writes) == 1
    connection.connection_lost(None)
    assert all(isinstance(each, GrpcError) for each in await asyncio.gather(*calls, return_exceptions=True))


async def test_a_peer_that_answers_no_ping_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.http.grpc.connection._PING_TIMEOUT", 0.05)
    peer, connection, server = await silent(tmp_path, keepalive=0.05)
    with pytest.raises(GrpcError, match="does not answer a PING") as failed:
        await connection.call("t.T/Echo", b"", 20)
    assert failed.value.code == Code.UNAVAILABLE
    assert frame(FrameType.PING, 0, 0, bytes(8)) in b"".join(peer.writes)
    assert not connection.usable
    server.close()


async def test_a_peer_that_answers_pings_is_waited_for(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.http.grpc.connection._PING_TIMEOUT", 1.0)
    connection = await dial(peer, keepalive=0.05)
    before = connection.heard
    with pytest.raises(GrpcError) as failed:
        await connection.call("t.T/Wait", b"", 0.5)
    assert failed.value.code == Code.DEADLINE_EXCEEDED
    assert connection.heard > before
    connection.close()


async def test_nobody_is_pinged_who_is_not_asked(tmp_path: Path) -> None:
    peer, connection, server = await silent(tmp_path, keepalive=0.01)
    await asyncio.sleep(0.1)
    assert peer.writes == []
    assert connection.usable
    connection.close()
    server.close()


@pytest.mark.parametrize("end", [b"", b"\0\0\0", b"\0\0\0\0\5ab"], ids=["nothing", "half a head", "half a message"])
async def test_an_answer_that_ends_early_is_no_answer(tmp_path: Path, end: bytes) -> None:
    peer, connection, server = await silent(tmp_path)
    call = asyncio.ensure_future(connection.call("t.T/Echo", b"", 20))
    while not peer.writes:
        await asyncio.sleep(0)
    trailers = frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 1, literals((("grpc-status", "0"),)))
    cast(asyncio.Transport, peer.transport).write(frame(FrameType.DATA, 0, 1, end) + trailers)
    with pytest.raises(GrpcError) as failed:
        await call
    assert failed.value.code == Code.INTERNAL
    connection.close()
    server.close()


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(1, 64), min_size=1, max_size=50))
def test_messages_in_any_pieces(messages: list[bytes], sizes: list[int]) -> None:
    data = b"".join(prefixed(message) for message in messages)
    call = GrpcCall(1000, single=False)
    for size in (*sizes, len(data)):
        if data[:size]:
            call.received(data[:size])
        data = data[size:]
    call.end(None)
    assert (call.messages, call.error) == (messages, None)
