"""The asking side of an HTTP/2 connection: streams, without any input or output.

    session = Session()
    stream = session.request(headers, body)
    transport.write(session.take())              # after anything that may have made bytes
    for event in session.receive(data): ...      # raises Violation: close the connection

A stream ends by `Ended`, or by `Cut` when the peer will not answer it to the end; then it is forgotten. What comes for
a forgotten one is ignored, but counted: the window of the connection is everybody's. Bodies wait for the peer's
windows; what we receive is let in as fast as it comes, so whoever listens sets a limit of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import hpack

from tarmac.wire.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    LONGEST,
    PREFACE,
    Frame,
    FrameReader,
    FrameType,
    Setting,
    frame,
    literals,
    without_padding,
)
from tarmac.wire.http2.headers import HeaderReader
from tarmac.wire.violations import ProtocolViolation

CANCEL = 8
_WINDOW = 1 << 20  # what the peer may send ahead, on each stream and on all together
_FIRST_WINDOW = 65_535
_LARGEST_BLOCK = 64 * 1024
_LAST_STREAM = 0x7FFFFFFF
_ONE, _SETTING = struct.Struct(">I"), struct.Struct(">HI")


class Answered(NamedTuple):
    """Headers of an answer; those after its data are its trailers."""

    stream: int
    headers: Mapping[str, str]


class Received(NamedTuple):
    """Bytes of an answer."""

    stream: int
    data: bytes


class Ended(NamedTuple):
    """The answer is complete."""

    stream: int


class Cut(NamedTuple):
    """The answer will not be completed. `code` is the peer's reason."""

    stream: int
    code: int


Event = Answered | Received | Ended | Cut


class _Stream:
    __slots__ = ("received", "unsent", "window")

    def __init__(self, body: bytes, window: int) -> None:
        self.unsent: memoryview | None = memoryview(body)  # None: everything is on its way
        self.window = window  # what the peer still takes
        self.received = 0  # and what it has not been told yet that we have


class Session:
    """The state of one connection."""

    def __init__(self) -> None:
        self.closing = False
        """The peer, or the numbers of streams, allow no more requests."""
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._streams: dict[int, _Stream] = {}
        self._next = 1
        self._window = self._stream_window = _FIRST_WINDOW
        self._received = 0
        self._block: tuple[Frame, bytearray] | None = None  # headers of which more is to come
        settings = ((Setting.ENABLE_PUSH, 0), (Setting.INITIAL_WINDOW_SIZE, _WINDOW))
        self._out = [PREFACE, frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in settings))]
        self._let_in(0, _WINDOW - _FIRST_WINDOW)

    def request(self, headers: tuple[tuple[str, str], ...], body: bytes) -> int:
        """Ask; the stream on which the answer comes."""
        stream, self._next = self._next, self._next + 2
        self.closing = self.closing or self._next > _LAST_STREAM
        block = literals(headers)
        for start in range(0, len(block), LONGEST):
            kind = FrameType.CONTINUATION if start else FrameType.HEADERS
            last = END_HEADERS if start + LONGEST >= len(block) else 0
            self._out.append(frame(kind, last, stream, block[start : start + LONGEST]))
        self._streams[stream] = state = _Stream(body, self._stream_window)
        self._send(stream, state)
        return stream

    def cancel(self, stream: int) -> None:
        """The answer is no longer of interest."""
        if self._streams.pop(stream, None) is not None:
            self._out.append(frame(FrameType.RST_STREAM, 0, stream, _ONE.pack(CANCEL)))

    def take(self) -> bytes:
        """Bytes to send, once."""
        out, self._out = self._out, []
        return b"".join(out)

    def receive(self, data: bytes) -> list[Event]:
        """What the peer did. Raises Violation."""
        events: list[Event] = []
        try:
            for each in self._frames.feed(data):
                self._on_frame(each, events)
        except (struct.error, hpack.HPACKError) as error:
            raise ProtocolViolation(f"a malformed frame: {error}") from error
        return events

    # What arrives.

    def _on_frame(self, frame: Frame, events: list[Event]) -> None:
        if (self._block is not None) != (frame.type == FrameType.CONTINUATION):
            raise ProtocolViolation("headers and what continues them do not follow each other")
        match frame.type:
            case FrameType.DATA:
                self._on_data(frame, events)
            case FrameType.HEADERS:
                self._on_headers(frame, bytearray(without_padding(frame)), frame.flags, events)
            case FrameType.CONTINUATION if self._block is not None:
                begun, block = self._block
                self._on_headers(begun, block + frame.payload, frame.flags, events)
            case FrameType.WINDOW_UPDATE:
                self._on_window(frame.stream, _ONE.unpack(frame.payload)[0] & _LAST_STREAM)
            case FrameType.SETTINGS if not frame.flags & ACK:
                self._on_settings(frame.payload)
            case FrameType.PING if not frame.flags & ACK:
                self._out.append(_answer(FrameType.PING, frame.payload))
            case FrameType.RST_STREAM:
                self._cut(frame.stream, _ONE.unpack(frame.payload)[0], events)
            case FrameType.GOAWAY:
                self.closing = True
                last, code = struct.unpack_from(">II", frame.payload)
                for stream in [each for each in self._streams if each > last]:
                    self._cut(stream, code, events)
            case FrameType.PUSH_PROMISE:
                raise ProtocolViolation("a push, which nobody allowed")
            case _:
                pass

    def _on_data(self, frame: Frame, events: list[Event]) -> None:
        self._received += len(frame.payload)
        if self._received > _WINDOW // 2:
            self._let_in(0, self._received)
            self._received = 0
        state = self._streams.get(frame.stream)
        if state is None:
            return
        if data := without_padding(frame):
            events.append(Received(frame.stream, data))
        state.received += len(frame.payload)
        if frame.flags & END_STREAM:
            self._end(frame.stream, state, events)
        elif state.received > _WINDOW // 2:
            self._let_in(frame.stream, state.received)
            state.received = 0

    def _on_headers(self, begun: Frame, block: bytearray, flags: int, events: list[Event]) -> None:
        if len(block) > _LARGEST_BLOCK:
            raise ProtocolViolation("headers are too large")
        if not flags & END_HEADERS:
            self._block = begun, block
            return
        self._block = None
        headers = self._headers.read(bytes(block))
        state = self._streams.get(begun.stream)
        if state is None:
            return
        events.append(Answered(begun.stream, headers))
        if begun.flags & END_STREAM:
            self._end(begun.stream, state, events)

    def _on_window(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif (state := self._streams.get(stream)) is not None:
            state.window += more
        self._send_all()

    def _on_settings(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                for state in self._streams.values():
                    state.window += value - self._stream_window
                self._stream_window = value
        self._out.append(_answer(FrameType.SETTINGS))
        self._send_all()

    def _end(self, stream: int, state: _Stream, events: list[Event]) -> None:
        """Answered before it has heard everything: then the rest is not worth sending."""
        del self._streams[stream]
        if state.unsent is not None:
            self._out.append(frame(FrameType.RST_STREAM, 0, stream, _ONE.pack(CANCEL)))
        events.append(Ended(stream))

    def _cut(self, stream: int, code: int, events: list[Event]) -> None:
        if self._streams.pop(stream, None) is not None:
            events.append(Cut(stream, code))

    # What is sent.

    def _send_all(self) -> None:
        for stream, state in self._streams.items():
            self._send(stream, state)

    def _send(self, stream: int, state: _Stream) -> None:
        """As much of a body as the peer takes now."""
        while (unsent := state.unsent) is not None:
            piece = unsent[: max(0, min(LONGEST, self._window, state.window))]
            if len(unsent) and not len(piece):
                return
            state.unsent = unsent[len(piece) :] if len(piece) < len(unsent) else None
            self._window -= len(piece)
            state.window -= len(piece)
            self._out.append(frame(FrameType.DATA, 0 if state.unsent is not None else END_STREAM, stream, piece))

    def _let_in(self, stream: int, more: int) -> None:
        self._out.append(frame(FrameType.WINDOW_UPDATE, 0, stream, _ONE.pack(more)))


def _answer(type: FrameType, payload: bytes = b"") -> bytes:
    return frame(type, ACK, 0, payload)
