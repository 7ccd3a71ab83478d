"""The server side of an HTTP/2 connection, for unary calls and streams of small messages, without any I/O.

    session = Http2ServerSession(longest=16_384)
    for asked in session.receive(data): ...      # raises ProtocolViolation: close the connection
    session.answer(asked.stream, headers, body, trailers)
    transport.write(session.take())

A streamed response is `begin`, any number of `send` and `finish`; `is_open` tells whether the peer still wants it.

Requests and responses are small: a body longer than `longest`, or more than `MAX_STREAMS` concurrent streams, end the
connection, and a response does not wait for the peer's window, which is never smaller than the default.
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

MAX_STREAMS = 8
"""Concurrent requests."""
_MAX_BLOCK = 16 * 1024
_ONE, _SETTING = struct.Struct(">I"), struct.Struct(">HI")

Headers = tuple[tuple[str, str], ...]


class RequestReceived(NamedTuple):
    """A complete request."""

    stream: int
    headers: Mapping[str, str]
    body: bytes


class _Question:
    __slots__ = ("body", "headers", "whole")

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.body = bytearray()
        self.whole = False


class Http2ServerSession:
    """The state of one connection."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._preface = bytearray()
        self._frames = Http2FrameReader()
        self._headers = HeaderReader(_MAX_BLOCK)
        self._questions: dict[int, _Question] = {}
        self._out = [frame(FrameType.SETTINGS, 0, 0, _SETTING.pack(Setting.MAX_CONCURRENT_STREAMS, MAX_STREAMS))]

    def receive(self, data: bytes) -> list[RequestReceived]:
        """Return the requests that these bytes complete. Raises ProtocolViolation."""
        asked: list[RequestReceived] = []
        try:
            for each in self._frames.feed(self._after_preface(data)):
                self._on_frame(each, asked)
        except (struct.error, hpack.HPACKError) as error:
            raise ProtocolViolation(f"a malformed frame: {error}") from error
        return asked

    def answer(self, stream: int, headers: Headers, body: bytes, trailers: Headers) -> None:
        """Send the response, unless the peer has cancelled the request."""
        self.begin(stream, headers)
        self.send(stream, body)
        self.finish(stream, trailers)

    def is_open(self, stream: int) -> bool:
        """Return True until the request is answered, or cancelled by the peer."""
        return stream in self._questions

    def begin(self, stream: int, headers: Headers) -> None:
        """Send the headers of a response, unless the peer has cancelled the request."""
        if stream in self._questions:
            self._out.append(frame(FrameType.HEADERS, END_HEADERS, stream, literals(headers)))

    def send(self, stream: int, data: bytes) -> None:
        """Send a part of the body, unless the peer has cancelled the request."""
        if stream in self._questions:
            for start in range(0, len(data), MAX_FRAME):
                self._out.append(frame(FrameType.DATA, 0, stream, data[start : start + MAX_FRAME]))

    def finish(self, stream: int, trailers: Headers) -> None:
        """End the response, unless the peer has cancelled the request."""
        if self._questions.pop(stream, None) is not None:
            self._out.append(frame(FrameType.HEADERS, END_HEADERS | END_STREAM, stream, literals(trailers)))

    def take(self) -> bytes:
        """Return the bytes to send, once."""
        out, self._out = self._out, []
        return b"".join(out)

    def _after_preface(self, data: bytes) -> bytes:
        missing = len(PREFACE) - len(self._preface)
        if missing <= 0:
            return data
        self._preface += data[:missing]
        if not PREFACE.startswith(self._preface):
            raise ProtocolViolation("the peer does not begin as HTTP/2 does")
        return data[missing:]

    def _on_frame(self, frame: Frame, asked: list[RequestReceived]) -> None:
        self._headers.check(frame.type)
        match frame.type:
            case FrameType.DATA:
                self._on_data(frame, asked)
            case FrameType.HEADERS | FrameType.CONTINUATION:
                if (block := self._headers.feed(frame)) is not None:
                    self._on_headers(block, asked)
            case FrameType.SETTINGS if not frame.flags & ACK:
                self._out.append(_acknowledged(FrameType.SETTINGS))
            case FrameType.PING if not frame.flags & ACK:
                self._out.append(_acknowledged(FrameType.PING, frame.payload))
            case FrameType.RST_STREAM:
                self._questions.pop(frame.stream, None)
            case FrameType.PUSH_PROMISE:
                raise ProtocolViolation("a PUSH_PROMISE from a client")
            case _:
                pass

    def _on_headers(self, block: Block, asked: list[RequestReceived]) -> None:
        if block.stream not in self._questions:
            if block.stream % 2 == 0 or len(self._questions) >= MAX_STREAMS:
                raise ProtocolViolation("more streams at once than were allowed")
            self._questions[block.stream] = _Question(block.headers)
        if block.last:
            self._complete(block.stream, asked)

    def _on_data(self, frame: Frame, asked: list[RequestReceived]) -> None:
        if len(frame.payload):
            self._out.append(_let_in(len(frame.payload)))
        question = self._questions.get(frame.stream)
        if question is None or question.whole:
            return
        question.body += without_padding(frame)
        if len(question.body) > self._longest:
            raise ProtocolViolation(f"a question of more than {self._longest} bytes")
        if frame.flags & END_STREAM:
            self._complete(frame.stream, asked)

    def _complete(self, stream: int, asked: list[RequestReceived]) -> None:
        question = self._questions[stream]
        if not question.whole:
            question.whole = True
            asked.append(RequestReceived(stream, question.headers, bytes(question.body)))


def _let_in(more: int) -> bytes:
    """Enlarge the window of the connection, which all streams share; a stream's own is larger than any request."""
    return frame(FrameType.WINDOW_UPDATE, 0, 0, _ONE.pack(more))


def _acknowledged(type: FrameType, payload: bytes = b"") -> bytes:
    return frame(type, ACK, 0, payload)
