"""Two sides of a WebSocket, with input split anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.randomness import Randomness
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import Closed, Event, MessageChunk, Pinged, Ponged, Socket, accept_key, offered


def side(server: bool) -> Socket:
    return Socket(None if server else Randomness())


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


def messages(events: list[Event]) -> list[bytes]:
    found: list[bytes] = []
    for event in events:
        assert isinstance(event, MessageChunk)
        if event.first:
            found.append(b"")
        found[-1] += event.data
    return found


def test_the_key_is_answered_as_the_standard_says() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_subprotocols_are_read_in_the_clients_order() -> None:
    headers = {"sec-websocket-version": "13", "sec-websocket-key": "k", "sec-websocket-protocol": "v5.a, v4.a"}
    assert offered(headers) == ("k", ["v5.a", "v4.a"])
    with pytest.raises(ProtocolViolation):
        offered({"sec-websocket-version": "8", "sec-websocket-key": "k"})


def test_a_ping_is_answered() -> None:
    client, server = Socket(Randomness()), Socket()
    client.ping(b"hi")
    assert server.receive(client.take()) == [Pinged(b"hi")]
    assert client.receive(server.take()) == [Ponged(b"hi")]


def test_closing_ends_what_is_read() -> None:
    client, server = Socket(Randomness()), Socket()
    client.close(1000, "done")
    client.send(b"too late")
    assert server.receive(client.take()) == [Closed(1000, "done")]
    assert server.receive(b"\xff\xff") == []


def test_a_ping_may_come_between_the_pieces_of_a_message() -> None:
    server = Socket(Randomness())  # reads unmasked frames
    events = server.receive(b"\x02\x01a" + b"\x89\x00" + b"\x80\x01b")
    assert events == [MessageChunk(b"a", True, False), Pinged(b""), MessageChunk(b"b", False, True)]


@given(
    st.booleans(),
    st.lists(st.binary(max_size=300) | st.integers(60_000, 70_000).map(lambda size: b"z" * size), max_size=6),
    st.lists(st.integers(0, 300), max_size=20),
)
def test_messages_arrive_however_the_network_cuts_them(from_server: bool, sent: list[bytes], sizes: list[int]) -> None:
    sender, receiver = side(from_server), side(not from_server)
    for message in sent:
        sender.send(message)
    events = [event for piece in cut(sender.take(), sizes) for event in receiver.receive(piece)]
    assert messages(events) == sent


@pytest.mark.parametrize(
    "frame",
    [
        b"\x82\x01a",  # not masked
        b"\xc2\x80\0\0\0\0",  # a reserved bit
        b"\x83\x80\0\0\0\0",  # an unknown opcode
        b"\x80\x80\0\0\0\0",  # a continuation without a start
        b"\x02\x80\0\0\0\0\x82\x80\0\0\0\0",  # a second start
        b"\x09\x80\0\0\0\0",  # a fragmented ping
        b"\x89\xfe\x00\x80\0\0\0\0",  # a long ping
        b"\x88\x81\0\0\0\0\x03",  # half a close code
    ],
)
def test_invalid_websocket_frames_are_violations(frame: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        Socket().receive(frame)


@given(st.binary(max_size=300), st.lists(st.integers(0, 40), max_size=10), st.booleans())
def test_any_bytes_are_events_or_a_violation(data: bytes, sizes: list[int], server: bool) -> None:
    socket = side(server)
    try:
        for piece in cut(data, sizes):
            socket.receive(piece)
    except ProtocolViolation:
        return
    assert len(socket.take()) <= 3 * len(data) + 8
