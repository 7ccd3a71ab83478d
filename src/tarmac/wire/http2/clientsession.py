"""The client side of an HTTP/2 connection: streams, without any I/O.

    session = Http2ClientSession()
    stream = session.request(headers, body)      # or `open`, then `send` repeatedly
    transport.write(session.take())              # after any call that may have queued bytes
    for event in session.receive(data): ...      # raises ProtocolViolation: close the connection

A stream ends with `StreamEnded`, or with `StreamReset` when the peer aborts it; then it is forgotten. Data for a
forgotten stream is ignored, but counted: all streams share the window of the connection. Bodies wait for the peer's
windows, and streams beyond its limit wait for earlier ones to end. Received data is acknowledged at once, so the reader
sets its own limit.
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
    MAX_FRAME,
    PREFACE,
    Frame,
    FrameType,
    Http2FrameReader,
    Setting,
    frame,
    literals,
    without_padding,
)
from tarmac.wire.http2.headers import Block, HeaderReader
from tarmac.wire.violations import ProtocolViolation

CANCEL = 8
_WINDOW = 1 << 20  # bytes that the peer may send ahead, on each stream and on all together
_FIRST_WINDOW = 65_535
_LAST_STREAM = 0x7FFFFFFF  # also the maximum of any other 31-bit number
_PING = bytes(8)
_NOTHING = memoryview(b"")
_ONE, _SETTING = struct.Struct(">I"), struct.Struct(">HI")


# Events of the streams of a client connection.


class ResponseReceived(NamedTuple):
    """Headers of a response; those after its data are its trailers."""

    stream: int
    headers: Mapping[str, str]


class DataReceived(NamedTuple):
    """Bytes of a response."""

    stream: int
    data: bytes


class StreamEnded(NamedTuple):
    """The response is complete."""

    stream: int


class StreamReset(NamedTuple):
    """The response was cut off. `code` is the peer's reason."""

    stream: int
    code: int


Event = ResponseReceived | DataReceived | StreamEnded | StreamReset


class _Stream:
    __slots__ = ("ending", "head", "open", "received", "unsent", "window")

    def __init__(self, head: bytes, window: int) -> None:
        self.head = head  # frames of its headers while it is queued; empty once they are sent
        self.unsent = _NOTHING
        self.ending = False  # nothing follows the unsent bytes
        self.open = True  # END_STREAM is not sent yet
        self.window = window  # bytes that the peer still accepts
        self.received = 0  # received bytes not yet acknowledged


class Http2ClientSession:
    """The state of one connection."""

    def __init__(self) -> None:
        self.closing = False
        """True if no more requests can be made: GOAWAY, or stream numbers used up."""
        self._frames = Http2FrameReader()
        self._headers = HeaderReader()
        self._streams: dict[int, _Stream] = {}
        self._waiting: dict[int, _Stream] = {}  # above the peer's limit, in order
        self._blocked: dict[int, _Stream] = {}  # blocked by a flow-control window
        self._next = 1
        self._begun = 0  # streams known to the peer and not ended
        self._most = _LAST_STREAM  # the peer's limit of those
        self._window = self._stream_window = _FIRST_WINDOW
        self._received = 0
        settings = ((Setting.ENABLE_PUSH, 0), (Setting.INITIAL_WINDOW_SIZE, _WINDOW))
        self._out = [PREFACE, frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in settings))]
        self._let_in(0, _WINDOW - _FIRST_WINDOW)

    def request(self, headers: tuple[tuple[str, str], ...], body: bytes) -> int:
        """Send a request; returns its stream."""
        stream = self.open(headers)
        self.send(stream, body, end=True)
        return stream

    def open(self, headers: tuple[tuple[str, str], ...]) -> int:
        """Start a request; returns its stream, for `send`."""
        stream, self._next = self._next, self._next + 2
        self.closing = self.closing or self._next > _LAST_STREAM
        self._streams[stream] = state = _Stream(_head(stream, literals(headers)), self._stream_window)
        # Stream numbers must reach the peer in order, so a new stream never overtakes queued ones.
        if self._waiting or self._begun >= self._most:
            self._waiting[stream] = state
        else:
            self._begin(stream, state)
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send more of the body; ignored for an ended stream."""
        state = self._streams.get(stream)
        if state is None or state.ending:
            return
        state.unsent = memoryview(bytes(state.unsent) + data if state.unsent else data)
        state.ending = end
        if not state.head:
            self._send(stream, state)

    def cancel(self, stream: int) -> None:
        """Cancel the request."""
        state = self._streams.get(stream)
        if state is not None:
            self._reset(stream, state)
            self._forget(stream, state)

    def ping(self) -> None:
        """Request a PING acknowledgement from the peer."""
        self._out.append(frame(FrameType.PING, 0, 0, _PING))

    def take(self) -> bytes:
        """Return the bytes to send, once."""
        out, self._out = self._out, []
        return b"".join(out)

    def receive(self, data: bytes) -> list[Event]:
        """Return the events in these bytes. Raises ProtocolViolation."""
        events: list[Event] = []
        try:
            for each in self._frames.feed(data):
                self._on_frame(each, events)
        except (struct.error, hpack.HPACKError) as error:
            raise ProtocolViolation(f"a malformed frame: {error}") from error
        return events

    # Receiving.

    def _on_frame(self, frame: Frame, events: list[Event]) -> None:
        self._headers.check(frame.type)
        match frame.type:
            case FrameType.DATA:
                self._on_data(frame, events)
            case FrameType.HEADERS | FrameType.CONTINUATION:
                if (block := self._headers.feed(frame)) is not None:
                    self._on_headers(block, events)
            case FrameType.WINDOW_UPDATE:
                self._on_window(frame.stream, _ONE.unpack(frame.payload)[0] & _LAST_STREAM)
            case FrameType.SETTINGS if not frame.flags & ACK:
                self._on_settings(frame.payload)
            case FrameType.PING if not frame.flags & ACK:
                self._out.append(_answer(FrameType.PING, frame.payload))
            case FrameType.RST_STREAM:
                self._cut(frame.stream, _ONE.unpack(frame.payload)[0], events)
            case FrameType.GOAWAY:
                self._on_goaway(*struct.unpack_from(">II", frame.payload), events)
            case FrameType.PUSH_PROMISE:
                raise ProtocolViolation("a PUSH_PROMISE, which the settings forbid")
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
            events.append(DataReceived(frame.stream, data))
        state.received += len(frame.payload)
        if frame.flags & END_STREAM:
            self._end(frame.stream, state, events)
        elif state.received > _WINDOW // 2:
            self._let_in(frame.stream, state.received)
            state.received = 0

    def _on_headers(self, block: Block, events: list[Event]) -> None:
        state = self._streams.get(block.stream)
        if state is None:
            return
        events.append(ResponseReceived(block.stream, block.headers))
        if block.last:
            self._end(block.stream, state, events)

    def _on_window(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif (state := self._streams.get(stream)) is not None:
            state.window += more
        self._send_blocked()

    def _on_settings(self, payload: bytes) -> None:
        for name, value in _SETTING.iter_unpack(payload):
            if name == Setting.INITIAL_WINDOW_SIZE:
                for state in self._streams.values():
                    state.window += value - self._stream_window
                self._stream_window = value
            elif name == Setting.MAX_CONCURRENT_STREAMS:
                self._most = value
        self._out.append(_answer(FrameType.SETTINGS))
        self._send_blocked()
        self._begin_waiting()

    def _on_goaway(self, last: int, code: int, events: list[Event]) -> None:
        """Handle GOAWAY: the peer serves streams up to `last` and no later ones, queued ones included."""
        self.closing = True
        late = [stream for stream in self._streams if stream > last or stream in self._waiting]
        self._waiting.clear()
        for stream in late:
            self._cut(stream, code, events)

    def _end(self, stream: int, state: _Stream, events: list[Event]) -> None:
        """End a stream. If the response came before the whole request was sent, the rest is not sent."""
        if state.open:
            self._reset(stream, state)
        self._forget(stream, state)
        events.append(StreamEnded(stream))

    def _cut(self, stream: int, code: int, events: list[Event]) -> None:
        state = self._streams.get(stream)
        if state is not None:
            self._forget(stream, state)
            events.append(StreamReset(stream, code))

    # Sending.

    def _begin(self, stream: int, state: _Stream) -> None:
        self._begun += 1
        self._out.append(state.head)
        state.head = b""
        if state.unsent or state.ending:
            self._send(stream, state)

    def _begin_waiting(self) -> None:
        while self._waiting and self._begun < self._most:
            stream = next(iter(self._waiting))
            self._begin(stream, self._waiting.pop(stream))

    def _send_blocked(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for stream, state in blocked.items():
            self._send(stream, state)

    def _send(self, stream: int, state: _Stream) -> None:
        """Send as much as the windows allow."""
        unsent = state.unsent
        while unsent and (room := min(MAX_FRAME, self._window, state.window)) > 0:
            piece, unsent = unsent[:room], unsent[room:]
            self._window -= len(piece)
            state.window -= len(piece)
            state.open = bool(unsent) or not state.ending
            self._out.append(frame(FrameType.DATA, 0 if state.open else END_STREAM, stream, piece))
        state.unsent = unsent
        if unsent:
            self._blocked[stream] = state
        elif state.ending and state.open:  # an empty body
            state.open = False
            self._out.append(frame(FrameType.DATA, END_STREAM, stream))

    def _reset(self, stream: int, state: _Stream) -> None:
        if not state.head:  # else the peer does not know it
            self._out.append(frame(FrameType.RST_STREAM, 0, stream, _ONE.pack(CANCEL)))

    def _forget(self, stream: int, state: _Stream) -> None:
        """Remove an ended stream, which admits queued ones. Reset it before: the order of frames matters."""
        del self._streams[stream]
        self._blocked.pop(stream, None)
        if state.head:
            self._waiting.pop(stream, None)
        else:
            self._begun -= 1
            self._begin_waiting()

    def _let_in(self, stream: int, more: int) -> None:
        self._out.append(frame(FrameType.WINDOW_UPDATE, 0, stream, _ONE.pack(more)))


def _head(stream: int, block: bytes) -> bytes:
    """Return the HEADERS frame and its continuations."""
    if len(block) <= MAX_FRAME:
        return frame(FrameType.HEADERS, END_HEADERS, stream, block)
    pieces = [block[start : start + MAX_FRAME] for start in range(0, len(block), MAX_FRAME)]
    kinds = (FrameType.HEADERS, *(FrameType.CONTINUATION for _ in pieces[1:]))
    flags = (*(0 for _ in pieces[1:]), END_HEADERS)
    return b"".join(frame(kind, flag, stream, piece) for kind, flag, piece in zip(kinds, flags, pieces, strict=True))


def _answer(type: FrameType, payload: bytes = b"") -> bytes:
    return frame(type, ACK, 0, payload)
