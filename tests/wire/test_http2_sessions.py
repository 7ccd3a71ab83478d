"""The asking side of HTTP/2, frame by frame, in any pieces."""

from __future__ import annotations

import struct

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.wire.http2 import Answered, Cut, Ended, Received, Session
from tarmac.wire.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    LONGEST,
    PADDED,
    PREFACE,
    Frame,
    FrameReader,
    FrameType,
    frame,
    literals,
)
from tarmac.wire.http2.headers import HeaderReader
from tarmac.wire.http2.session import CANCEL
from tarmac.wire.violations import ProtocolViolation

HEADERS = (("colour", "green"), ("length", "x" * 300))


def sent(session: Session) -> list[Frame]:
    return list(FrameReader().feed(session.take().removeprefix(PREFACE)))


def asked(body: bytes = b"") -> tuple[Session, int]:
    """A session in which a question has been asked; what it has sent so far is past."""
    session = Session()
    stream = session.request(HEADERS, body)
    session.take()
    return session, stream


def window(stream: int, more: int) -> bytes:
    return frame(FrameType.WINDOW_UPDATE, 0, stream, struct.pack(">I", more))


def test_a_question_is_headers_and_a_body() -> None:
    session = Session()
    stream = session.request(HEADERS, b"body")
    head, body = sent(session)[-2:]
    assert (head.type, head.flags, head.stream) == (FrameType.HEADERS, END_HEADERS, stream)
    assert tuple(hpack.Decoder().decode(head.payload)) == HEADERS
    assert body == Frame(FrameType.DATA, END_STREAM, stream, b"body")


def test_headers_that_do_not_fit_one_frame_are_continued() -> None:
    session = Session()
    long = (("long", "x" * 3 * LONGEST),)
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
        Answered(stream, {":status": "200"}),
        Received(stream, b"abc"),
        Answered(stream, {"a": "b", "c": "d"}),
        Ended(stream),
    ]


def test_a_body_waits_for_the_windows_of_the_peer() -> None:
    session = Session()
    stream = session.request((), bytes(100_000))
    data = [each for each in sent(session) if each.type == FrameType.DATA]
    assert sum(len(each.payload) for each in data) == 65_535
    session.receive(window(stream, 50_000))
    assert sent(session) == []
    session.receive(window(0, 10_000))
    assert [len(each.payload) for each in sent(session)] == [10_000]
    session.receive(window(0, 50_000))
    rest = sent(session)
    assert [len(each.payload) for each in rest] == [LONGEST, 100_000 - 65_535 - 10_000 - LONGEST]
    assert [each.flags for each in rest] == [0, END_STREAM]


def test_a_window_that_the_peer_changes_counts_for_what_is_under_way() -> None:
    session = Session()
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 10)))
    stream = session.request((), bytes(30))
    assert [len(each.payload) for each in sent(session) if each.type == FrameType.DATA] == [10]
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 5)))
    session.receive(window(stream, 5))
    assert [each.type for each in sent(session)] == [FrameType.SETTINGS]
    session.receive(frame(FrameType.SETTINGS, 0, 0, struct.pack(">HI", 4, 100)))
    assert [len(each.payload) for each in sent(session) if each.type == FrameType.DATA] == [20]


def test_what_is_received_is_let_in_again() -> None:
    session, stream = asked()
    allowed = {0: 1 << 20, stream: 1 << 20}
    for _ in range(1000):
        session.receive(frame(FrameType.DATA, 0, stream, bytes(LONGEST)))
        for each in sent(session):
            assert each.type == FrameType.WINDOW_UPDATE
            allowed[each.stream] += struct.unpack(">I", each.payload)[0]
        allowed = {each: left - LONGEST for each, left in allowed.items()}
        assert min(allowed.values()) >= LONGEST


def test_what_comes_for_a_forgotten_stream_counts_for_all() -> None:
    session, stream = asked()
    session.cancel(stream)
    assert sent(session) == [Frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", CANCEL))]
    for _ in range(40):
        assert session.receive(frame(FrameType.DATA, 0, stream, bytes(LONGEST))) == []
    assert [each.type for each in sent(session)] == [FrameType.WINDOW_UPDATE]


def test_an_answer_before_the_question_is_through_ends_the_question() -> None:
    session, stream = asked(bytes(100_000))
    head = frame(FrameType.HEADERS, END_HEADERS | END_STREAM, stream, literals((("a", "b"),)))
    assert session.receive(head) == [Answered(stream, {"a": "b"}), Ended(stream)]
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
    assert session.receive(frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", 7))) == [Cut(stream, 7)]
    assert session.receive(frame(FrameType.RST_STREAM, 0, stream, struct.pack(">I", 7))) == []


def test_a_peer_that_goes_away_cuts_only_what_it_has_not_begun() -> None:
    session, first = asked()
    second = session.request((), b"")
    assert session.receive(frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", first, 0))) == [Cut(second, 0)]
    assert session.closing
    data = frame(FrameType.DATA, END_STREAM, first, b"x")
    assert session.receive(data) == [Received(first, b"x"), Ended(first)]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
        frame(FrameType.DATA, PADDED, 1, b"\xff"),
        frame(FrameType.CONTINUATION, END_HEADERS, 1, b""),
        frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.DATA, 0, 1, b""),
        frame(FrameType.HEADERS, 0, 1, b"") + frame(FrameType.CONTINUATION, 0, 1, bytes(LONGEST)) * 5,
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


def test_what_only_points_into_the_table_is_read_again_once_the_table_has_changed() -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    encoder.encode([("x", "1")])
    first = encoder.encode([("x", "1")])  # the newest entry, by its number
    reader.read(hpack.Encoder().encode([("x", "1")]))
    assert reader.read(first) == reader.read(first) == {"x": "1"}
    reader.read(hpack.Encoder().encode([("x", "2")]))
    assert reader.read(first) == {"x": "2"}
