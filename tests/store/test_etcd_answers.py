"""The client decodes responses of etcd as protobuf does, in any frames, and rejects damaged ones.

hpack's encoder and protobuf make the responses, with fields that our subset of etcd's messages does not have. Random
frames carry them: cut, padded, with continued headers and other frames between them, and delivered in random pieces.
The second half changes some of the bytes: then a call must fail like one without a response, or still be right.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import hpack
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.clock import SystemClock
from tarmac.http.grpc import GrpcConnection
from tarmac.http.grpc.calls import prefixed
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import AnswerTooLong, EtcdClient, Lost
from tarmac.store.etcd.loading import pages
from tarmac.store.etcd.memberconnections import ConnectionUse
from tarmac.store.etcd.records import EtcdLayout
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Compacted, Unavailable
from tarmac.wire.http2.frames import END_HEADERS, END_STREAM, PADDED, PRIORITY, FrameType, frame

_NUMBERS = st.integers(0, 2**63 - 1)
_KVS = st.builds(
    pb.KeyValue,
    key=st.binary(max_size=20),
    create_revision=_NUMBERS,
    mod_revision=_NUMBERS,
    version=_NUMBERS,
    value=st.binary(max_size=300),
)
_EVENTS = st.builds(pb.Event, type=st.sampled_from([0, 1]), kv=_KVS, prev_kv=st.none() | _KVS)
_HEADERS = st.builds(pb.Header, revision=_NUMBERS)
_WATCHES = st.builds(
    pb.WatchResponse, header=_HEADERS, watch_id=_NUMBERS, created=st.booleans(), events=st.lists(_EVENTS, max_size=5)
)
_RANGES = st.builds(pb.RangeResponse, header=_HEADERS, kvs=st.lists(_KVS, max_size=5), more=st.booleans())
_TXNS = st.builds(
    pb.TxnResponse,
    header=_HEADERS,
    succeeded=st.booleans(),
    responses=st.lists(st.builds(pb.ResponseOp, response_range=_RANGES), max_size=3),
)
# Fields of etcd's own header (cluster, member and term), and of a later version.
_UNKNOWN = st.sampled_from([b"", b"\x98\x06\x01", b"\xa2\x06\x03abc", b"\xa1\x06" + bytes(8), b"\xa5\x06" + bytes(4)])
_SEEDS = st.integers(0, 2**32)


class Wire(asyncio.Transport):
    """A transport without a peer."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Answer:
    """The bytes of a response on stream 1, in random frames."""

    def __init__(self, random: Random, messages: list[bytes], *, ends: bool) -> None:
        self._random = random
        self._encoder = hpack.Encoder()
        self._frames = [frame(FrameType.SETTINGS, 0, 0)]
        self._headers([(":status", "200"), ("content-type", "application/grpc")], 0)
        self._data(b"".join(prefixed(message) for message in messages))
        if ends:
            self._headers([("grpc-status", "0"), ("grpc-message", "")], END_STREAM)

    def bytes(self) -> bytes:
        return b"".join(self._frames)

    def _headers(self, headers: list[tuple[str, str]], flags: int) -> None:
        block = self._encoder.encode(headers, huffman=self._random.random() < 0.5)
        if self._random.random() < 0.3:
            block, flags = bytes(5) + block, flags | PRIORITY
        cut = self._random.randrange(5, len(block) + 1)
        first, rest = block[:cut], block[cut:]
        self._frames.append(frame(FrameType.HEADERS, flags | (0 if rest else END_HEADERS), 1, first))
        if rest:
            self._frames.append(frame(FrameType.CONTINUATION, END_HEADERS, 1, rest))

    def _data(self, data: bytes) -> None:
        while data:
            size = self._random.choice((1, 4, 5, 6, 100, 16_000))
            piece, data = data[:size], data[size:]
            if self._random.random() < 0.2:
                padding = self._random.randrange(10)
                self._frames.append(frame(FrameType.DATA, PADDED, 1, bytes([padding]) + piece + bytes(padding)))
            else:
                self._frames.append(frame(FrameType.DATA, 0, 1, piece))
            if self._random.random() < 0.3:
                self._frames.append(self._random.choice(_BETWEEN))


_BETWEEN = (
    frame(FrameType.PING, 0, 0, b"12345678"),
    frame(FrameType.WINDOW_UPDATE, 0, 0, struct.pack(">I", 1000)),
    frame(FrameType.WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 100_000)),
    struct.pack(">HBBBI", 0, 3, 0xBE, 0, 0) + b"new",
)


def _client() -> tuple[EtcdClient, GrpcConnection]:
    client, connection = EtcdClient(EtcdSettings(endpoints=("etcd:2379",)), SystemClock()), GrpcConnection("etcd:2379")
    connection.connection_made(Wire())
    for use in ConnectionUse:
        client._members._made["etcd:2379", use] = connection
    return client, connection


async def _hand_over(connection: GrpcConnection, data: bytes, random: Random) -> None:
    while data:
        size = random.choice((1, 9, 50, 1000, 100_000))
        connection.data_received(data[:size])
        data = data[size:]
        if random.random() < 0.1:
            await asyncio.sleep(0)


async def _asked(
    ask: Callable[[EtcdClient], Any], messages: list[bytes], seed: int, change: Callable[[bytes], bytes] = bytes
) -> Any:
    """Return the client's result of the response; an error if the peer then closes the connection."""
    random = Random(seed)
    client, connection = _client()
    asking = asyncio.ensure_future(ask(client))
    await asyncio.sleep(0)
    await _hand_over(connection, change(Answer(random, messages, ends=True).bytes()), random)
    connection.connection_lost(None)
    try:
        return await asyncio.wait_for(asking, 5)
    except (Unavailable, Compacted) as error:
        return error


async def _watched(client: EtcdClient) -> list[pb.WatchResponse]:
    found: list[pb.WatchResponse] = []
    with suppress(Unavailable, Compacted):  # it never succeeds
        async with client.watch(pb.WatchCreateRequest(key=b"a")) as stream:
            async for batch in stream.batches():
                found += batch
    return found


@given(_TXNS, _UNKNOWN, _SEEDS)
def test_an_answer_is_what_protobuf_says(answer: pb.TxnResponse, unknown: bytes, seed: int) -> None:
    message = answer.SerializeToString() + unknown
    found = asyncio.run(_asked(lambda client: client.txn(pb.TxnRequest()), [message], seed))
    assert found == pb.TxnResponse.FromString(message)


@given(st.lists(_WATCHES, max_size=8), _UNKNOWN, _SEEDS)
def test_events_are_what_protobuf_says(answers: list[pb.WatchResponse], unknown: bytes, seed: int) -> None:
    messages = [answer.SerializeToString() + unknown for answer in answers]
    found = asyncio.run(_asked(_watched, messages, seed))
    assert found == [pb.WatchResponse.FromString(message) for message in messages]


async def test_messages_of_one_read_are_one_batch() -> None:
    client, connection = _client()
    messages = [pb.WatchResponse(watch_id=number).SerializeToString() for number in range(1, 40)]
    async with client.watch(pb.WatchCreateRequest(key=b"a")) as stream:
        connection.data_received(Answer(Random(1), messages, ends=False).bytes())
        batch = await anext(aiter(stream.batches()))
    assert [each.watch_id for each in batch] == list(range(1, 40))
    connection.connection_lost(None)


class Cluster(EtcdClient):
    """Keys of a kilobyte each; a response has a limited size."""

    def __init__(self, keys: int, fit: int) -> None:
        super().__init__(EtcdSettings(endpoints=("etcd:2379",)), SystemClock())
        self._kvs = [pb.KeyValue(key=b"/p/%05d" % number, value=bytes(1000)) for number in range(keys)]
        self._fit = fit
        self.limits: list[int] = []

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        self.limits.append(request.limit)
        rest = [kv for kv in self._kvs if kv.key >= request.key]
        found = rest[: request.limit]
        if len(found) > self._fit:
            raise AnswerTooLong("too much")
        return pb.RangeResponse(header=pb.Header(revision=7), kvs=found, more=len(rest) > len(found))


@pytest.mark.parametrize(
    ("fit", "large", "limits"),
    [
        (1000, 1 << 30, [500, 500, 500]),
        (200, 1 << 30, [500, 250, *[125] * 10]),
        (1000, 200_000, [500, 250, *[125] * 4]),
    ],
    ids=["small", "too long", "large"],
)
async def test_pages_shrink_until_they_fit(
    monkeypatch: pytest.MonkeyPatch, fit: int, large: int, limits: list[int]
) -> None:
    monkeypatch.setattr("tarmac.store.etcd.loading._LARGE_PAGE", large)
    cluster = Cluster(1250, fit)
    found = [kv.key async for page in pages(cluster, EtcdLayout("/p", None)) for kv in page.kvs]
    assert found == [b"/p/%05d" % number for number in range(1250)]
    assert cluster.limits == limits
    await cluster.close()


async def test_an_object_that_fits_no_answer_is_told() -> None:
    cluster = Cluster(3, 0)
    with pytest.raises(AnswerTooLong):
        _ = [page async for page in pages(cluster, EtcdLayout("/p", None))]
    await cluster.close()


def _changed(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(changed))
        match random.randrange(4):
            case 0:
                changed[at] ^= 1 << random.randrange(8)
            case 1:
                del changed[at : at + random.randrange(1, 20)]
            case 2:
                changed[at:at] = random.randbytes(random.randrange(1, 20))
            case _:
                changed[at:at] = changed[: random.randrange(60)]
        changed = changed or bytearray(b"\0")
    return bytes(changed)


@given(_TXNS, _SEEDS)
def test_damaged_frames_are_an_answer_or_none(answer: pb.TxnResponse, seed: int) -> None:
    """The result is a message or an error of the store."""
    change = Random(seed + 1)
    found = asyncio.run(
        _asked(
            lambda client: client.txn(pb.TxnRequest()),
            [answer.SerializeToString()],
            seed,
            lambda d: _changed(change, d),
        )
    )
    assert isinstance(found, pb.TxnResponse | Unavailable | Compacted)


@given(_TXNS, _SEEDS)
def test_damaged_messages_are_what_protobuf_says_or_lost(answer: pb.TxnResponse, seed: int) -> None:
    message = _changed(Random(seed), answer.SerializeToString() or b"\0")
    found = asyncio.run(_asked(lambda client: client.txn(pb.TxnRequest()), [message], seed))
    try:
        assert found == pb.TxnResponse.FromString(message)
    except DecodeError:
        assert isinstance(found, Lost)


@given(st.lists(_WATCHES, max_size=4), _SEEDS)
def test_a_damaged_watch_ends(answers: list[pb.WatchResponse], seed: int) -> None:
    change = Random(seed + 1)
    messages = [answer.SerializeToString() for answer in answers]
    found = asyncio.run(_asked(_watched, messages, seed, lambda data: _changed(change, data)))
    assert isinstance(found, list)
