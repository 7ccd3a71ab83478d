"""The server side of HTTP/2 against our own client side, with input split anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.wire.http2 import (
    DataReceived,
    Event,
    Http2ClientSession,
    Http2ServerSession,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
)
from tarmac.wire.http2.frames import END_HEADERS, END_STREAM, PREFACE, FrameType, frame, literals
from tarmac.wire.http2.serversession import MAX_STREAMS
from tarmac.wire.violations import ProtocolViolation

HEADERS = ((":path", "/s/M"), ("colour", "green"))
MAX_HEADERS = 1000


def ask(stream: int, body: bytes, flags: int = END_STREAM) -> bytes:
    head = frame(FrameType.HEADERS, END_HEADERS, stream, literals(HEADERS))
    return head + frame(FrameType.DATA, flags, stream, body)


def begun() -> Http2ServerSession:
    session = Http2ServerSession(MAX_HEADERS)
    assert session.receive(PREFACE + frame(FrameType.SETTINGS, 0, 0)) == []
    session.take()
    return session


@given(st.lists(st.binary(max_size=MAX_HEADERS), min_size=1, max_size=MAX_STREAMS), st.integers(1, 100))
def test_questions_are_answered_in_any_pieces(bodies: list[bytes], size: int) -> None:
    asking, answering = Http2ClientSession(), Http2ServerSession(MAX_HEADERS)
    streams = {asking.request(HEADERS, body): body for body in bodies}
    sent = asking.take()
    heard: list[RequestReceived] = []
    for at in range(0, len(sent), size):
        heard += answering.receive(sent[at : at + size])
    assert {each.stream: each.body for each in heard} == streams
    assert all(each.headers["colour"] == "green" for each in heard)
    for each in reversed(heard):
        answering.answer(each.stream, ((":status", "200"),), each.body[::-1], (("end", "yes"),))
    back = answering.take()
    events: list[Event] = []
    for at in range(0, len(back), size):
        events += asking.receive(back[at : at + size])
    answers = {
        stream: b"".join(e.data for e in events if isinstance(e, DataReceived) and e.stream == stream)
        for stream in streams
    }
    assert answers == {stream: body[::-1] for stream, body in streams.items()}
    assert [e.headers for e in events if isinstance(e, ResponseReceived)][-1] == {"end": "yes"}
    assert sum(isinstance(e, StreamEnded) for e in events) == len(bodies)


@pytest.mark.parametrize(
    "sent",
    [
        ask(1, b"x" * 600, 0) + frame(FrameType.DATA, 0, 1, b"x" * 600),
        b"".join(ask(2 * number + 1, b"", 0) for number in range(MAX_STREAMS + 1)),
        ask(2, b""),
        frame(FrameType.HEADERS, 0, 1, b"\0" * 16_000) + frame(FrameType.CONTINUATION, 0, 1, b"\0" * 16_000),
        frame(FrameType.HEADERS, 0, 1, literals(HEADERS)) + frame(FrameType.PING, 0, 0, bytes(8)),
        frame(FrameType.CONTINUATION, 0, 1),
        frame(FrameType.PUSH_PROMISE, 0, 1, bytes(4)),
        frame(FrameType.HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
    ],
    ids=[
        "too long",
        "too many",
        "an even number",
        "endless headers",
        "headers cut",
        "nothing to continue",
        "push",
        "nonsense",
    ],
)
def test_violations_of_http2_close_the_connection(sent: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        begun().receive(sent)


@given(st.binary(max_size=300))
def test_noise_breaks_off_or_means_nothing(noise: bytes) -> None:
    session = begun()
    try:
        session.receive(noise)
    except ProtocolViolation:
        return


def test_connections_without_the_preface_are_violations() -> None:
    with pytest.raises(ProtocolViolation):
        Http2ServerSession(MAX_HEADERS).receive(b"PRI * HTTP/1.1")


def test_a_question_that_was_taken_back_is_not_answered() -> None:
    session = begun()
    [asked] = session.receive(ask(1, b"x"))
    session.receive(frame(FrameType.RST_STREAM, 0, 1, bytes(4)))
    session.take()
    session.answer(asked.stream, HEADERS, b"x", HEADERS)
    assert session.take() == b""
