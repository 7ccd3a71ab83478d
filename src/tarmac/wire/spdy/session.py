"""One side of a SPDY connection: streams, without any I/O.

    session = SpdySession(server=True)
    for event in session.receive(data): ...      # raises ProtocolViolation: close the connection
    session.send(stream, b"...", fin=True)
    transport.write(session.take())              # after any call that may have queued bytes

The opener of a stream must wait for its reply before sending on it: spdystream drops earlier data. Each side ends its
half of a stream by FIN; a stream with both halves ended, or reset, is forgotten, and later data for it is ignored.
Pings are answered; settings and windows are ignored, but must be well formed. A peer may have `most_streams` open at
once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tarmac.wire.spdy.frames import (
    FIN,
    MAX_DATA,
    UNIDIRECTIONAL,
    Control,
    ControlFrameType,
    Data,
    Reset,
    SpdyFrameReader,
    control_frame,
    data_head,
)
from tarmac.wire.spdy.headers import HeaderDecoder, HeaderEncoder
from tarmac.wire.violations import ProtocolViolation

_ONE, _TWO = struct.Struct(">I"), struct.Struct(">II")
_SYN = struct.Struct(">IIBB")
_MAX_31_BITS = 0x7FFFFFFF


class StreamOpened(NamedTuple):
    """The peer opened a stream: `accept` or `reset` it. With `fin` it will send nothing."""

    stream: int
    headers: Mapping[str, str]
    fin: bool


class StreamReplied(NamedTuple):
    """The peer accepted a stream opened by this side."""

    stream: int
    headers: Mapping[str, str]


class StreamData(NamedTuple):
    """Bytes on a stream."""

    stream: int
    data: bytes


class StreamFinished(NamedTuple):
    """The peer will send nothing more on a stream. `reset`: and accepts nothing more either."""

    stream: int
    reset: bool = False


class GoneAway(NamedTuple):
    """The peer opens and accepts no new streams."""

    status: int


Event = StreamOpened | StreamReplied | StreamData | StreamFinished | GoneAway


class _Stream:
    __slots__ = ("ours_ended", "theirs_ended")

    def __init__(self, ours_ended: bool, theirs_ended: bool) -> None:
        self.ours_ended = ours_ended
        self.theirs_ended = theirs_ended


class SpdySession:
    """The state of one connection."""

    def __init__(self, *, server: bool, most_streams: int = 512) -> None:
        self._frames = SpdyFrameReader()
        self._encoder = HeaderEncoder()
        self._decoder = HeaderDecoder()
        self._streams: dict[int, _Stream] = {}
        self._next = 2 if server else 1
        self._expected = 1 if server else 2  # lowest id that the peer may open next
        self._most = most_streams
        self._out: list[bytes] = []

    def receive(self, data: bytes) -> list[Event]:
        """Return the events in these bytes. Raises ProtocolViolation."""
        events: list[Event] = []
        for frame in self._frames.feed(data):
            if isinstance(frame, Data):
                self._on_data(frame, events)
            else:
                self._on_control(frame, events)
        return events

    def take(self) -> bytes:
        """Return the bytes to send, once."""
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)

    def open(self, headers: Mapping[str, str]) -> int:
        """Open a stream; returns its id. `StreamReplied` or `StreamFinished` follows."""
        stream, self._next = self._next, self._next + 2
        self._streams[stream] = _Stream(False, False)
        payload = _SYN.pack(stream, 0, 0, 0) + self._encoder.encode(headers)
        self._out.append(control_frame(ControlFrameType.SYN_STREAM, payload))
        return stream

    def accept(self, stream: int) -> None:
        """Accept a stream that the peer opened."""
        if stream in self._streams:
            self._out.append(control_frame(ControlFrameType.SYN_REPLY, _ONE.pack(stream) + self._encoder.encode({})))

    def send(self, stream: int, data: bytes, fin: bool = False) -> bool:
        """Queue bytes. False when the stream accepts none: ended by this side, reset or forgotten."""
        state = self._streams.get(stream)
        if state is None or state.ours_ended:
            return False
        for start in range(0, len(data) or 1, MAX_DATA):
            piece = data[start : start + MAX_DATA]
            last = fin and start + MAX_DATA >= len(data)
            self._out += (data_head(stream, len(piece), last), piece)
        if fin:
            state.ours_ended = True
            self._forget_ended(stream, state)
        return True

    def reset(self, stream: int, status: Reset = Reset.CANCEL) -> None:
        """Reset a stream, both ways."""
        if self._streams.pop(stream, None) is not None:
            self._reset(stream, status)

    def go_away(self) -> None:
        """Announce that no more streams are accepted."""
        self._out.append(control_frame(ControlFrameType.GOAWAY, _TWO.pack(max(self._expected - 2, 0), 0)))

    def takes(self, stream: int) -> bool:
        """True if `send` would succeed."""
        state = self._streams.get(stream)
        return state is not None and not state.ours_ended

    # Receiving.

    def _on_data(self, frame: Data, events: list[Event]) -> None:
        state = self._streams.get(frame.stream)
        if state is None or state.theirs_ended:
            return
        if frame.data:
            events.append(StreamData(frame.stream, frame.data))
        if frame.fin:
            self._they_end(frame.stream, state, events)

    def _on_control(self, frame: Control, events: list[Event]) -> None:
        payload = frame.payload
        try:
            match frame.type:
                case ControlFrameType.SYN_STREAM:
                    self._on_syn_stream(frame, events)
                case ControlFrameType.SYN_REPLY | ControlFrameType.HEADERS:
                    self._on_headers(frame, events)
                case ControlFrameType.RST_STREAM:
                    stream, _ = _TWO.unpack(payload)
                    if self._streams.pop(stream, None) is not None:
                        events.append(StreamFinished(stream, reset=True))
                case ControlFrameType.PING:
                    (number,) = _ONE.unpack(payload)
                    if number % 2 == self._expected % 2:  # the peer's; else it answers a ping of this side
                        self._out.append(control_frame(ControlFrameType.PING, payload))
                case ControlFrameType.GOAWAY:
                    events.append(GoneAway(_TWO.unpack(payload)[1]))
                case ControlFrameType.SETTINGS:
                    _check_settings(payload)
                case ControlFrameType.WINDOW_UPDATE:
                    _check_window(*_TWO.unpack(payload))
                case _:
                    pass
        except struct.error as error:
            raise ProtocolViolation(f"a malformed control frame of type {frame.type}") from error

    def _on_syn_stream(self, frame: Control, events: list[Event]) -> None:
        stream, _, _, _ = _SYN.unpack_from(frame.payload)
        headers = self._decoder.decode(frame.payload[_SYN.size :])
        if not self._expected <= stream <= _MAX_31_BITS or stream % 2 != self._expected % 2:
            self._reset(stream, Reset.PROTOCOL_ERROR)
            return
        self._expected = stream + 2
        if len(self._streams) >= self._most:
            self._reset(stream, Reset.REFUSED_STREAM)
            return
        fin = bool(frame.flags & FIN)
        self._streams[stream] = _Stream(bool(frame.flags & UNIDIRECTIONAL), fin)
        events.append(StreamOpened(stream, headers, fin))

    def _on_headers(self, frame: Control, events: list[Event]) -> None:
        (stream,) = _ONE.unpack_from(frame.payload)
        headers = self._decoder.decode(frame.payload[_ONE.size :])
        state = self._streams.get(stream)
        if state is None:
            return
        if frame.type == ControlFrameType.SYN_REPLY:
            events.append(StreamReplied(stream, headers))
        if frame.flags & FIN and not state.theirs_ended:
            self._they_end(stream, state, events)

    def _they_end(self, stream: int, state: _Stream, events: list[Event]) -> None:
        state.theirs_ended = True
        self._forget_ended(stream, state)
        events.append(StreamFinished(stream))

    def _forget_ended(self, stream: int, state: _Stream) -> None:
        if state.ours_ended and state.theirs_ended:
            self._streams.pop(stream, None)

    def _reset(self, stream: int, status: Reset) -> None:
        if 0 < stream <= _MAX_31_BITS:
            self._out.append(control_frame(ControlFrameType.RST_STREAM, _TWO.pack(stream, status)))


def _check_settings(payload: bytes) -> None:
    """Check the count against the frame's size: implementations that trust it allocate for four billion."""
    (count,) = _ONE.unpack_from(payload)
    if len(payload) != _ONE.size + 8 * count:
        raise ProtocolViolation(f"{count} settings in a frame of {len(payload)} bytes")


def _check_window(stream: int, more: int) -> None:
    if stream > _MAX_31_BITS or not 0 < more <= _MAX_31_BITS:
        raise ProtocolViolation(f"a window that grows by {more}")
