"""Two sides of a SPDY connection, with input split anywhere."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.wire.spdy import Event, GoneAway, SpdySession, StreamData, StreamFinished, StreamOpened, StreamReplied
from tarmac.wire.spdy.frames import MAX_CONTROL, Control, ControlFrameType, Reset, SpdyFrameReader, control_frame
from tarmac.wire.spdy.headers import DICTIONARY, MAX_BLOCK, HeaderDecoder, HeaderEncoder
from tarmac.wire.violations import ProtocolViolation

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
HEADERS = st.dictionaries(TEXT.map(str.lower).filter(lambda name: name == name.lower()), TEXT, max_size=6)


def pair() -> tuple[SpdySession, SpdySession]:
    return SpdySession(server=False), SpdySession(server=True)


def opened(client: SpdySession, server: SpdySession, **headers: str) -> int:
    """Open a stream that both sides know."""
    stream = client.open(headers)
    assert server.receive(client.take()) == [StreamOpened(stream, headers, False)]
    server.accept(stream)
    assert client.receive(server.take()) == [StreamReplied(stream, {})]
    return stream


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def joined(events: list[Event]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, StreamData))


def test_the_dictionary_is_the_one_of_the_protocol() -> None:
    assert len(DICTIONARY) == 1423
    assert DICTIONARY.startswith(b"\0\0\0\x07options\0\0\0\x04head")
    assert DICTIONARY.endswith(b"enq=0.")


def test_a_stream_carries_bytes_both_ways_and_each_half_ends_by_itself() -> None:
    client, server = pair()
    stream = opened(client, server, streamtype="stdin")
    client.send(stream, b"in", fin=True)
    assert server.receive(client.take()) == [StreamData(stream, b"in"), StreamFinished(stream)]
    assert not client.send(stream, b"too late")
    server.send(stream, b"out")
    server.send(stream, b"", fin=True)
    assert client.receive(server.take()) == [StreamData(stream, b"out"), StreamFinished(stream)]
    assert not server.takes(stream)


def test_numbers_of_the_two_sides_do_not_meet() -> None:
    client, server = pair()
    assert [client.open({}), client.open({})] == [1, 3]
    assert [server.open({}), server.open({})] == [2, 4]


def test_a_reset_ends_both_halves_and_late_bytes_are_ignored() -> None:
    client, server = pair()
    stream = opened(client, server)
    client.send(stream, b"on its way")
    late = client.take()
    server.reset(stream)
    assert client.receive(server.take()) == [StreamFinished(stream, reset=True)]
    assert server.receive(late) == []
    assert not client.send(stream, b"more")


def test_pings_of_the_peer_are_answered_and_answers_are_not() -> None:
    _, server = pair()
    ping = control_frame(ControlFrameType.PING, struct.pack(">I", 7))
    assert server.receive(ping) == []
    assert server.take() == ping
    assert server.receive(control_frame(ControlFrameType.PING, struct.pack(">I", 2))) == []
    assert server.take() == b""


def test_settings_windows_and_unknown_frames_are_ignored() -> None:
    _, server = pair()
    settings_frame = struct.pack(">III", 1, 4, 100)
    for frame in (
        control_frame(ControlFrameType.SETTINGS, settings_frame),
        control_frame(ControlFrameType.WINDOW_UPDATE, struct.pack(">II", 1, 65536)),
        control_frame(11, b"credential"),  # pyright: ignore[reportArgumentType] - not one of ours, which is the point
    ):
        assert server.receive(frame) == []
    assert server.take() == b""


def test_going_away_is_told() -> None:
    client, server = pair()
    opened(client, server)
    server.go_away()
    assert client.receive(server.take()) == [GoneAway(0)]


def test_a_stream_number_that_goes_back_is_reset() -> None:
    client, server = pair()
    client.open({})
    client.open({})
    first, second = SpdyFrameReader().feed(client.take())
    assert isinstance(first, Control)
    assert isinstance(second, Control)
    renumbered = struct.pack(">I", 5) + first.payload[4:]
    assert server.receive(control_frame(ControlFrameType.SYN_STREAM, renumbered)) == [StreamOpened(5, {}, False)]
    assert server.receive(control_frame(ControlFrameType.SYN_STREAM, second.payload)) == []
    assert server.take() == control_frame(ControlFrameType.RST_STREAM, struct.pack(">II", 3, Reset.PROTOCOL_ERROR))


def test_more_streams_than_allowed_are_refused() -> None:
    client, server = SpdySession(server=False), SpdySession(server=True, most_streams=2)
    for _ in range(3):
        client.open({})
    assert [event.stream for event in server.receive(client.take()) if isinstance(event, StreamOpened)] == [1, 3]
    assert client.receive(server.take()) == [StreamFinished(5, reset=True)]


def test_headers_that_inflate_without_bounds_are_a_violation() -> None:
    bomb = HeaderEncoder().encode({"name": "x" * (4 * MAX_BLOCK)})
    assert len(bomb) < 2000
    with pytest.raises(ProtocolViolation):
        HeaderDecoder().decode(bomb)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x80\x02\0\x01\0\0\0\0",  # version 2
        struct.pack(">II", 0x80030001, MAX_CONTROL + 1),
        control_frame(ControlFrameType.SYN_STREAM, b"short"),
        control_frame(ControlFrameType.SYN_STREAM, b"\0\0\0\1" + b"\0" * 6 + b"not zlib"),
        control_frame(ControlFrameType.GOAWAY, b""),
        control_frame(ControlFrameType.RST_STREAM, b"\0\0\0\1"),
    ],
)
def test_invalid_spdy_frames_are_violations(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        SpdySession(server=True).receive(frame)


@given(st.lists(HEADERS, max_size=5))
def test_headers_arrive_as_they_were_sent(blocks: list[dict[str, str]]) -> None:
    encoder, decoder = HeaderEncoder(), HeaderDecoder()
    assert [decoder.decode(encoder.encode(block)) for block in blocks] == blocks


@given(
    st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=300), st.booleans()), max_size=20),
    st.lists(st.integers(0, 200), max_size=30),
)
def test_bytes_arrive_in_order_however_the_network_cuts_them(
    sends: list[tuple[int, bytes, bool]], sizes: list[int]
) -> None:
    client, server = pair()
    streams = [opened(client, server, streamtype=str(number)) for number in range(3)]
    sent = dict.fromkeys(streams, b"")
    for number, data, fin in sends:
        if client.send(streams[number], data, fin):
            sent[streams[number]] += data
    events = [event for piece in cut(client.take(), sizes) for event in server.receive(piece)]
    for stream in streams:
        assert joined([event for event in events if event[0] == stream]) == sent[stream]
        assert (StreamFinished(stream) in events) is not client.takes(stream)


@given(st.binary(max_size=400), st.lists(st.integers(0, 40), max_size=10))
def test_any_bytes_are_events_or_a_violation(data: bytes, sizes: list[int]) -> None:
    session = SpdySession(server=True)
    try:
        for piece in cut(data, sizes):
            session.receive(piece)
    except ProtocolViolation:
        return
    assert len(session.take()) <= 64 * len(data) + 64


@given(st.sampled_from(list(ControlFrameType)), st.integers(0, 255), st.binary(max_size=200))
def test_any_control_frame_is_events_or_a_violation(type: ControlFrameType, flags: int, payload: bytes) -> None:
    client, server = pair()
    opened(client, server)
    try:
        server.receive(control_frame(type, payload, flags))
    except ProtocolViolation:
        return


def test_a_large_frame_is_handed_on_as_it_comes() -> None:
    client, server = pair()
    stream = opened(client, server)
    client.send(stream, b"x" * 1_000_000, fin=True)
    data = client.take()
    first = server.receive(data[:1000])
    assert len(joined(first)) == 992
    rest = server.receive(data[1000:])
    assert len(joined(rest)) == 1_000_000 - 992
    assert rest[-1] == StreamFinished(stream)
