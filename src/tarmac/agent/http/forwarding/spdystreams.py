"""A SPDY client, raw or tunnelled: it opens any number of stream pairs, one per connection.

A pair is an error stream followed by a data stream with the same request id, the order every client uses. The data
stream opens the connection to the pod.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarmac.agent.http.forwarding.lane import ClientLane
from tarmac.agent.http.forwarding.podend import Dial, PodEnd
from tarmac.agent.http.spdyend import SpdyEnd
from tarmac.base.digits import port_number
from tarmac.wire.channels import PORT, REQUEST_ID, STREAM_TYPE
from tarmac.wire.spdy import SpdySession, StreamData, StreamFinished, StreamOpened
from tarmac.wire.spdy.frames import Reset

_MAX_ID = 64  # characters of a request id; kubectl's are numbers


class _StreamPair(ClientLane["SpdyForward"]):
    """The lane of one connection."""

    def __init__(self, forward: SpdyForward, error: int, data: int) -> None:
        super().__init__(forward)
        self._error = error
        self._data = data

    def send(self, data: bytes) -> None:
        self._forward.send(self._data, data)

    def closed(self, error: str | None) -> None:
        self._forward.send(self._error, (error or "").encode(), fin=True)
        if error is None:
            self._forward.send(self._data, b"", fin=True)
        self._forward.forget(self._data, reset=error is not None)


class SpdyForward(SpdyEnd):
    """Port-forward over SPDY."""

    def __init__(self, transport: asyncio.Transport, tunnelled: bool, dial: Dial) -> None:
        super().__init__(transport, tunnelled)
        self.session = SpdySession(server=True)
        self._dial = dial
        self._errors: dict[str, int] = {}  # error streams by request id, until their data stream is opened
        self._ends: dict[int, PodEnd] = {}  # by data stream

    def ends(self) -> Sequence[PodEnd]:
        return list(self._ends.values())

    def send(self, stream: int, data: bytes, fin: bool = False) -> None:
        """Send data on a stream."""
        self.session.send(stream, data, fin)
        self.flush()

    def forget(self, stream: int, reset: bool) -> None:
        """Forget the closed connection of a data stream; reset the stream after an error."""
        self._ends.pop(stream, None)
        if reset:
            self.session.reset(stream)
            self.flush()

    def opened(self, stream: StreamOpened) -> None:
        number, kind, port = stream.stream, stream.headers.get(STREAM_TYPE), port_number(stream.headers.get(PORT, ""))
        # Very old clients send no request id: their data stream directly follows its error stream.
        request = stream.headers.get(REQUEST_ID) or str(number - (2 if kind == "data" else 0))
        if kind == "error" and request not in self._errors and len(request) <= _MAX_ID:
            self._errors[request] = number
            self.session.accept(number)
        elif kind == "data" and request in self._errors and port is not None:
            self.session.accept(number)
            self._ends[number] = PodEnd(_StreamPair(self, self._errors.pop(request), number), self._dial, port)
        else:
            self.session.reset(number, Reset.REFUSED_STREAM)

    def on_stream_event(self, event: StreamData | StreamFinished) -> None:
        end = self._ends.get(event.stream)
        if end is None:
            if isinstance(event, StreamFinished) and event.reset:
                self._forget_error(event.stream)
            return
        if isinstance(event, StreamData):
            end.write(event.data)
        elif event.reset:
            del self._ends[event.stream]
            end.close()
        else:
            end.finish()

    def _forget_error(self, stream: int) -> None:
        """Forget an error stream that was reset before its data stream was opened: the request is cancelled."""
        for request in [each for each, error in self._errors.items() if error == stream]:
            del self._errors[request]
