"""The client side of HTTP/2, frame by frame, with input split anywhere."""

from __future__ import annotations

import struct

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.wire.http2 import DataReceived, Http2ClientSession, ResponseReceived, StreamEnded, StreamReset
from tarmac.wire.http2.clientsession import CANCEL
from tarmac.wire.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    MAX_FRAME,
    PADDED,
    PREFACE,
    Frame,
    FrameType,
    Http2FrameReader,
    Setting,
    frame,
    literals,
)
from tarmac.wire.http2.headers import HeaderReader
from tarmac.wire.violations import ProtocolViolation

HEADERS = (("colour", "green"), ("length", "x" * 300))


def sent(session: Http2ClientSession) -> list[Frame]:
    return list(Http2FrameReader().feed(session.take().removeprefix(PREFACE)))


def asked(body: bytes = b"") -> tuple[Http2ClientSession, int]:
    """Return a session with one open request, after its frames were taken."""
    session = Http2ClientSession()
    stream = session.request(HEADERS, body)
    session.take()
    return session, stream


def window(stream: int, more: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream, struct.pack(">I", more))


def test_a_question_is_headers_and_a_body() -> None:
    session = Http2ClientSession()
    stream = session.request(HEADERS, b"body")
    head, body = sent(session)[-2:]
    assert (head.type, head.flags, head.stream) == (FrameType.HEADERS, END_HEADERS, stream)
    assert tuple(hpack.Decoder().decode(head.payload)) == HEADERS
    assert body == Frame(FrameType.DATA, END_STREAM, stream, b"body")


def test_headers_that_do_not_fit_one_frame_are_continued() -> None:
    session = Http2ClientSession()
    long = (("long", "x" * 3 * MAX_FRAME),)
    session.request(long, b"")
    head, *more = [each for each in sent(session) if each.type in (FrameType.HEADERS, FrameType.CONTINUATION)]
    assert [each.flags for each in (head, *more)] == [0, 0, 0, END_HEADERS]
    decoder = hpack.Decoder(max_header_list_size=1 << 20)
    assert tuple(decoder.decode(b"".join(each.payload for each in (head, *more)))) == long


@given(st.lists(st.integers(1, 40), max_size=20))
def test_an_answer_in_any_pieces(sizes: list[int]) -> None:
    session, stream = asked()
    data = frame(FrameType.HEADERS, END_HEADERS, stream, literals(((":status", "200"),)))
    data += frame(FrameType.DATA, PADDED, stream, b"\2abc\0\0")
    data += frame(FrameType.HEADERS, END_STREAM, stream, literals((("a", "b"),)))
    data += frame(FrameType.CONTINUATION, END_HEADERS, stream, literals((("c", "d"),)))
    events = list[object]()
    for size in (*sizes, len(data)):
        events += session.receive(data[:size])
        data = data[size:]
    assert events == [
        ResponseReceived(stream, {":status": "200"}),
        DataReceived(stream, b"abc"),
        ResponseReceived(stream, {"a": "b", "c": "d"}),
        StreamEnded(stream),
    ]


def test_a_body_waits_for_the_windows_of_the_peer() -> None:
    session = Http2ClientSession()
    stream = session.request((), bytes(100_000))
    data = [each for each in sent(session) if each.type == FrameType.DATA]
    assert sum(len(each.payload) for each in data) == 65_535
    session.receive(window(stream, 50_000))
    assert sent(session) == []
    session.receive(window(0, 10_000))
    assert [len(each.payload) for each in sent(session)] == [10_000]
    session.receive(window(0, 50_000))
    rest = sent(session)
    assert [len(each.payload) for each in rest] == [MAX_FRAME, 100_000 - 65_535 - 10_000 - MAX_FRAME]
    assert [each.flags for each in rest] == [0, END_STREAM]


def test_a_window_that_the_peer_changes_counts_for_what_is_under_way() -> None:
    session = Http2ClientSession()
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 10)))
    stream = session.request((), bytes(30))
    assert [len(each.payload) for each in sent(session) if each.type == FrameType.DATA] == [10]
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 5)))
    session.receive(window(stream, 5))
    assert [each.type for each in sent(session)] == [FrameType.SETTINGS]
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 100)))
    assert [len(each.payload) for each in sent(session) if each.type == FrameType.DATA] == [20]


def test_received_data_reopens_the_windows() -> None:
    session, stream = asked()
    allowed = {0: 1 << 20, stream: 1 << 20}
    for _ in range(1000):
        session.receive(frame(FrameType.DATA, 0, stream, bytes(MAX_FRAME)))
        for each in sent(session):
            assert each.type == FrameType.WINDOW_UPDATE
            allowed[each.stream] += struct.unpack(">I", each.payload)[0]
        allowed = {each: left - MAX_FRAME for each, left in allowed.items()}
        assert min(allowed.values()) >= MAX_FRAME


def test_data_of_forgotten_streams_counts_for_the_connection() -> None:
    session, stream = asked()
    session.cancel(stream)
    assert sent(session) == [Frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", CANCEL))]
    for _ in range(40):
        assert session.receive(frame(FrameType.DATA, 0, stream, bytes(MAX_FRAME))) == []
    assert [each.type for each in sent(session)] == [FrameType.WINDOW_UPDATE]


def test_an_answer_before_the_question_is_through_ends_the_question() -> None:
    session, stream = asked(bytes(100_000))
    head = frame(FrameType.HEADERS, END_HEADERS | END_STREAM, stream, literals((("a", "b"),)))
    assert session.receive(head) == [ResponseReceived(stream, {"a": "b"}), StreamEnded(stream)]
    assert [each.type for each in sent(session)] == [FrameType.RST_STREAM]
    session.receive(window(0, 1 << 20))
    assert sent(session) == []


def test_pings_and_settings_are_answered_and_answers_are_not() -> None:
    session, _ = asked()
    session.receive(frame(FrameType.PING, 0, 0, b"12345678") + frame(FrameType.SETTINGS, 0, 0))
    assert sent(session) == [Frame(FrameType.PING, ACK, 0, b"12345678"), Frame(FrameType.SETTINGS, ACK, 0, b"")]
    session.receive(frame(FrameType.PING, ACK, 0, b"12345678") + frame(FrameType.SETTINGS, ACK, 0))
    assert sent(session) == []


def test_a_stream_that_the_peer_resets_is_cut() -> None:
    session, stream = asked()
    assert session.receive(frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", 7))) == [StreamReset(stream, 7)]
    assert session.receive(frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", 7))) == []


def test_a_peer_that_goes_away_cuts_only_what_it_has_not_begun() -> None:
    session, first = asked()
    second = session.request((), b"")
    assert session.receive(frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", first, 0))) == [StreamReset(second, 0)]
    assert session.closing
    data = frame(FrameType.DATA, END_STREAM, first, b"x")
    assert session.receive(data) == [DataReceived(first, b"x"), StreamEnded(first)]


def limit(streams: int) -> bytes:
    return frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", Setting.MAX_CONCURRENT_STREAMS, streams))


def answer(stream: int) -> bytes:
    return frame(FrameType.HEADERS, END_HEADERS | END_STREAM, stream, literals((("a", "b"),)))


def begun(session: Http2ClientSession) -> list[int]:
    return [each.stream for each in sent(session) if each.type == FrameType.HEADERS]


def test_a_question_may_go_on_while_it_is_answered() -> None:
    session = Http2ClientSession()
    stream = session.open(HEADERS)
    session.send(stream, b"one")
    assert [each.flags for each in sent(session)[-2:]] == [END_HEADERS, 0]
    assert session.receive(frame(FrameType.DATA, 0, stream, b"1")) == [DataReceived(stream, b"1")]
    session.send(stream, b"two")
    session.send(stream, b"", end=True)
    assert sent(session) == [
        Frame(FrameType.DATA, 0, stream, b"two"),
        Frame(FrameType.DATA, END_STREAM, stream, b""),
    ]
    session.send(stream, b"after the end")
    assert sent(session) == []


def test_data_queued_behind_a_closed_window_keeps_its_order() -> None:
    session = Http2ClientSession()
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 2)))
    stream = session.open(())
    for word in (b"one", b"two", b"three"):
        session.send(stream, word)
    sent(session)
    session.receive(window(stream, 4))
    session.receive(window(stream, 100))
    assert b"".join(each.payload for each in sent(session)) == b"etwothree"


def test_streams_beyond_those_the_peer_takes_wait_for_others_to_end() -> None:
    session, first = asked()
    session.receive(limit(1))
    second, third, fourth = (session.request(HEADERS, b"x") for _ in range(3))
    assert begun(session) == []
    session.cancel(third)
    assert session.receive(answer(first)) == [ResponseReceived(first, {"a": "b"}), StreamEnded(first)]
    assert begun(session) == [second]
    session.cancel(second)
    frames = sent(session)
    assert [(each.type, each.stream) for each in frames] == [
        (FrameType.RST_STREAM, second),
        (FrameType.HEADERS, fourth),
        (FrameType.DATA, fourth),
    ], "the reset comes before the new stream"
    session.receive(limit(3))
    assert [session.request((), b""), session.request((), b"")] == begun(session)


def test_streams_that_wait_are_cut_when_the_peer_goes_away() -> None:
    session, first = asked()
    session.receive(limit(1))
    second = session.request(HEADERS, b"")
    assert session.receive(frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", 0x7FFFFFFF, 0))) == [StreamReset(second, 0)]
    assert session.receive(answer(first))[-1] == StreamEnded(first)
    assert begun(session) == []


@given(st.data())
def test_no_limit_of_the_peer_is_ever_passed(data: st.DataObject) -> None:
    """The peer's limits change in any order: concurrent streams, windows, stream ids; finally all requests are sent."""
    session, peer = Http2ClientSession(), _Peer()
    bodies: dict[int, bytes] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["ask", "ask", "limit", "window", "answer", "cancel"])):
            case "ask":
                body = bytes(data.draw(st.integers(0, 60)))
                bodies[session.request((), body)] = body
            case "limit":
                session.receive(peer.limit(data.draw(st.integers(0, 4)), data.draw(st.integers(0, 30))))
            case "window":
                for stream in (0, *peer.open):
                    session.receive(peer.grant(stream, data.draw(st.integers(1, 40))))
            case "answer" if peer.open:
                session.receive(answer(stream := data.draw(st.sampled_from(sorted(peer.open)))))
                peer.over(stream)
                bodies.pop(stream)
            case "cancel" if bodies:
                session.cancel(stream := data.draw(st.sampled_from(sorted(bodies))))
                bodies.pop(stream)
            case _:
                pass
        peer.hear(sent(session))
    session.receive(peer.limit(100, 1000))
    session.receive(peer.grant(0, 100_000))
    peer.hear(sent(session))
    assert {stream: peer.heard[stream] for stream in bodies} == bodies


class _Peer:
    """A plain model of the server side."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.heard: dict[int, bytes] = {}
        self._most, self._initial, self._all = 1 << 31, 65_535, 65_535
        self._windows: dict[int, int] = {}
        self._last = 0

    def limit(self, most: int, initial: int) -> bytes:
        for stream in self._windows:
            self._windows[stream] += initial - self._initial
        self._most, self._initial = most, initial
        return frame(FrameType.SETTINGS, 0, 0, struct.pack(">HIHI", 3, most, 4, initial))

    def grant(self, stream: int, more: int) -> bytes:
        if stream:
            self._windows[stream] += more
        else:
            self._all += more
        return window(stream, more)

    def over(self, stream: int) -> None:
        self.open.discard(stream)
        del self._windows[stream]

    def hear(self, frames: list[Frame]) -> None:
        for each in frames:
            if each.type == FrameType.HEADERS:
                assert each.stream > self._last, "stream ids increase"
                assert len(self.open) < self._most, "more streams than allowed"
                self._last = each.stream
                self.open.add(each.stream)
                self._windows[each.stream], self.heard[each.stream] = self._initial, b""
            elif each.type == FrameType.RST_STREAM and each.stream in self.open:
                self.over(each.stream)
            elif each.type == FrameType.DATA and each.payload:
                self._windows[each.stream] -= len(each.payload)
                self._all -= len(each.payload)
                assert min(self._windows[each.stream], self._all) >= 0, "more than the window allows"
                self.heard[each.stream] += each.payload


def test_a_ping_of_ours() -> None:
    session, _ = asked()
    session.ping()
    assert [(each.type, each.flags) for each in sent(session)] == [(FrameType.PING, 0)]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
        frame(FrameType.DATA, PADDED, 1, b"\xff"),
        frame(FrameType.CONTINUATION, END_HEADERS, 1, b""),
        frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.CONTINUATION, END_HEADERS, 3, b""),
        frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.DATA, 0, 1, b""),
        frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.CONTINUATION, 0, 1, bytes(MAX_FRAME)) * 5,
        frame(FrameType.PUSH_PROMISE, END_HEADERS, 1, b""),
        frame(FrameType.WINDOW_UPDATE, 0, 0, b"1"),
        frame(FrameType.SETTINGS, 0, 0, b"1"),
        frame(FrameType.GOAWAY, 0, 0, b"1"),
    ],
)
def test_a_violation_ends_the_connection(data: bytes) -> None:
    session, _ = asked()
    with pytest.raises(ProtocolViolation):
        session.receive(data)


@given(st.binary(max_size=200), st.lists(st.tuples(st.integers(0, 10), st.integers(0, 255), st.binary(max_size=40))))
def test_any_bytes_are_events_or_a_violation(tail: bytes, frames: list[tuple[int, int, bytes]]) -> None:
    session, stream = asked()
    data = b"".join(struct.pack(">HBBBI", 0, len(rest), kind, flags, stream) + rest for kind, flags, rest in frames)
    try:
        session.receive(data + tail)
    except ProtocolViolation:
        return
    session.take()


WORDS = st.sampled_from(["a", "b", "c", "content-type", "grpc-status", "0", "application/grpc"])
BLOCKS = st.lists(st.lists(st.tuples(WORDS, WORDS, st.booleans()), max_size=4), max_size=40)


@given(BLOCKS)
def test_headers_read_as_they_were_meant_however_often_they_come(blocks: list[list[tuple[str, str, bool]]]) -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    for block in blocks:
        sent_block = encoder.encode([(name, value, sensitive) for name, value, sensitive in block])
        assert reader.read(sent_block) == {name: value for name, value, _ in block}


def test_indexed_blocks_are_decoded_again_after_the_table_changes() -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    encoder.encode([("x", "1")])
    first = encoder.encode([("x", "1")])  # the newest entry, by its number
    reader.read(hpack.Encoder().encode([("x", "1")]))
    assert reader.read(first) == reader.read(first) == {"x": "1"}
    reader.read(hpack.Encoder().encode([("x", "2")]))
    assert reader.read(first) == {"x": "2"}
