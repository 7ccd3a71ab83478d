"""The asking side of an HTTP/2 connection: streams, without any input or output.

    session = Session()
    stream = session.request(headers, body)      # or `open`, then `send` as often as there is something to say
    transport.write(session.take())              # after anything that may have made bytes
    for event in session.receive(data): ...      # raises Violation: close the connection

A stream ends by `Ended`, or by `Cut` when the peer will not answer it to the end; then it is forgotten. What comes for
a forgotten one is ignored, but counted: the window of the connection is everybody's. Bodies wait for the peer's
windows, and streams beyond those it takes at once wait for others to end. What we receive is let in as fast as it
comes, so whoever listens sets a limit of its own.
"""

from __future__ import annotations

import struct

import hpack

from tarmac.wire.http2.events import Answered, Cut, Ended, Event, Received
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
from tarmac.wire.http2.headers import Block, HeaderReader
from tarmac.wire.violations import ProtocolViolation

CANCEL = 8
_WINDOW = 1 << 20  # what the peer may send ahead, on each stream and on all together
_FIRST_WINDOW = 65_535
_LAST_STREAM = 0x7FFFFFFF  # and the most of anything else that takes 31 bits
_PING = bytes(8)
_NOTHING = memoryview(b"")
_ONE, _SETTING = struct.Struct(">I"), struct.Struct(">HI")


class _Stream:
    __slots__ = ("ending", "head", "open", "received", "unsent", "window")

    def __init__(self, head: bytes, window: int) -> None:
        self.head = head  # frames of its headers while it waits for its turn; empty once they are on their way
        self.unsent = _NOTHING
        self.ending = False  # nothing comes after what is unsent
        self.open = True  # the peer has not been told of the end
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
        self._waiting: dict[int, _Stream] = {}  # those that the peer does not take yet, in order
        self._blocked: dict[int, _Stream] = {}  # those whose windows are too small for what they have to say
        self._next = 1
        self._begun = 0  # streams that the peer knows of and that are not over
        self._most = _LAST_STREAM  # of those, at once
        self._window = self._stream_window = _FIRST_WINDOW
        self._received = 0
        settings = ((Setting.ENABLE_PUSH, 0), (Setting.INITIAL_WINDOW_SIZE, _WINDOW))
        self._out = [PREFACE, frame(FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in settings))]
        self._let_in(0, _WINDOW - _FIRST_WINDOW)

    def request(self, headers: tuple[tuple[str, str], ...], body: bytes) -> int:
        """Ask; the stream on which the answer comes."""
        stream = self.open(headers)
        self.send(stream, body, end=True)
        return stream

    def open(self, headers: tuple[tuple[str, str], ...]) -> int:
        """Begin to ask; the stream on which to go on."""
        stream, self._next = self._next, self._next + 2
        self.closing = self.closing or self._next > _LAST_STREAM
        self._streams[stream] = state = _Stream(_head(stream, literals(headers)), self._stream_window)
        # Numbers have to reach the peer in their order, so nobody passes those who wait.
        if self._waiting or self._begun >= self._most:
            self._waiting[stream] = state
        else:
            self._begin(stream, state)
        return stream

    def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Say more; for a stream that is over, nothing."""
        state = self._streams.get(stream)
        if state is None or state.ending:
            return
        state.unsent = memoryview(bytes(state.unsent) + data if state.unsent else data)
        state.ending = end
        if not state.head:
            self._send(stream, state)

    def cancel(self, stream: int) -> None:
        """The answer is no longer of interest."""
        state = self._streams.get(stream)
        if state is not None:
            self._reset(stream, state)
            self._forget(stream, state)

    def ping(self) -> None:
        """Have the peer say something."""
        self._out.append(frame(FrameType.PING, 0, 0, _PING))

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
                self._on_good_bye(*struct.unpack_from(">II", frame.payload), events)
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

    def _on_headers(self, block: Block, events: list[Event]) -> None:
        state = self._streams.get(block.stream)
        if state is None:
            return
        events.append(Answered(block.stream, block.headers))
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

    def _on_good_bye(self, last: int, code: int, events: list[Event]) -> None:
        """The peer will answer streams up to `last` and take no new ones, those that wait here included."""
        self.closing = True
        late = [stream for stream in self._streams if stream > last or stream in self._waiting]
        self._waiting.clear()
        for stream in late:
            self._cut(stream, code, events)

    def _end(self, stream: int, state: _Stream, events: list[Event]) -> None:
        """Answered before it has heard everything: then the rest is not worth sending."""
        if state.open:
            self._reset(stream, state)
        self._forget(stream, state)
        events.append(Ended(stream))

    def _cut(self, stream: int, code: int, events: list[Event]) -> None:
        state = self._streams.get(stream)
        if state is not None:
            self._forget(stream, state)
            events.append(Cut(stream, code))

    # What is sent.

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
        """As much as the peer takes now."""
        unsent = state.unsent
        while unsent and (room := min(LONGEST, self._window, state.window)) > 0:
            piece, unsent = unsent[:room], unsent[room:]
            self._window -= len(piece)
            state.window -= len(piece)
            state.open = bool(unsent) or not state.ending
            self._out.append(frame(FrameType.DATA, 0 if state.open else END_STREAM, stream, piece))
        state.unsent = unsent
        if unsent:
            self._blocked[stream] = state
        elif state.ending and state.open:  # it had nothing to say
            state.open = False
            self._out.append(frame(FrameType.DATA, END_STREAM, stream))

    def _reset(self, stream: int, state: _Stream) -> None:
        if not state.head:  # else the peer has never heard of it
            self._out.append(frame(FrameType.RST_STREAM, 0, stream, _ONE.pack(CANCEL)))

    def _forget(self, stream: int, state: _Stream) -> None:
        """It is over, which makes room for others. Whoever resets it does so before: the order is what counts."""
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
    """The frames of headers."""
    if len(block) <= LONGEST:
        return frame(FrameType.HEADERS, END_HEADERS, stream, block)
    pieces = [block[start : start + LONGEST] for start in range(0, len(block), LONGEST)]
    kinds = (FrameType.HEADERS, *(FrameType.CONTINUATION for _ in pieces[1:]))
    flags = (*(0 for _ in pieces[1:]), END_HEADERS)
    return b"".join(frame(kind, flag, stream, piece) for kind, flag, piece in zip(kinds, flags, pieces, strict=True))


def _answer(type: FrameType, payload: bytes = b"") -> bytes:
    return frame(type, ACK, 0, payload)
