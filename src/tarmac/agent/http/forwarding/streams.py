"""A client that comes by SPDY, raw or tunnelled: it opens as many pairs of streams as it likes, one connection each.

A pair is an error stream and then a data stream with the same request id, in this order, as every client opens them.
The data stream is what the connection is made for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tarmac.agent.http.clientend import ClientEnd
from tarmac.agent.http.forwarding.podend import Dial, PodEnd
from tarmac.base.digits import port_number
from tarmac.wire.channels import PORT, REQUEST_ID, STREAM_TYPE
from tarmac.wire.spdy import Finished, GoneAway, Opened, Received, Session
from tarmac.wire.spdy.frames import Reset
from tarmac.wire.websocket import Piece

_LONGEST_ID = 64  # of a request; kubectl's are numbers


class _StreamPair:
    """The lane of one connection."""

    def __init__(self, forward: SpdyForward, error: int, data: int) -> None:
        self._forward = forward
        self._error = error
        self._data = data

    @property
    def backed_up(self) -> bool:
        return self._forward.backed_up

    def send(self, data: bytes) -> None:
        self._forward.send(self._data, data)

    def closed(self, error: str | None) -> None:
        self._forward.send(self._error, (error or "").encode(), fin=True)
        if error is None:
            self._forward.send(self._data, b"", fin=True)
        self._forward.forget(self._data, reset=error is not None)

    def hold(self, held: bool) -> None:
        self._forward.hold(held)


class SpdyForward(ClientEnd):
    """Port-forward by SPDY."""

    def __init__(self, transport: asyncio.Transport, tunnelled: bool, dial: Dial) -> None:
        super().__init__(transport, tunnelled)
        self._session = Session(server=True)
        self._dial = dial
        self._errors: dict[str, int] = {}  # error streams by request, until their data stream comes
        self._ends: dict[int, PodEnd] = {}  # by data stream

    def ends(self) -> Sequence[PodEnd]:
        return list(self._ends.values())

    def send(self, stream: int, data: bytes, fin: bool = False) -> None:
        """Bytes on a stream."""
        self._session.send(stream, data, fin)
        self.flush()

    def forget(self, stream: int, reset: bool) -> None:
        """The connection behind a data stream is no more."""
        self._ends.pop(stream, None)
        if reset:
            self._session.reset(stream)
            self.flush()

    def carried(self, piece: Piece) -> None:
        if not piece.data:
            return
        for event in self._session.receive(piece.data):
            if isinstance(event, Opened):
                self._open(event)
            elif isinstance(event, Received | Finished):
                self._pass_on(event)
            elif isinstance(event, GoneAway):
                self.close()
        self.flush()

    def _open(self, opened: Opened) -> None:
        stream, kind, port = opened.stream, opened.headers.get(STREAM_TYPE), port_number(opened.headers.get(PORT, ""))
        # Without request ids, as very old clients come, the data stream is the one right behind its error stream.
        request = opened.headers.get(REQUEST_ID) or str(stream - (2 if kind == "data" else 0))
        if kind == "error" and request not in self._errors and len(request) <= _LONGEST_ID:
            self._errors[request] = stream
            self._session.accept(stream)
        elif kind == "data" and request in self._errors and port is not None:
            self._session.accept(stream)
            self._ends[stream] = PodEnd(_StreamPair(self, self._errors.pop(request), stream), self._dial, port)
        else:
            self._session.reset(stream, Reset.REFUSED_STREAM)

    def _pass_on(self, event: Received | Finished) -> None:
        end = self._ends.get(event.stream)
        if end is None:
            if isinstance(event, Finished) and event.reset:
                self._forget_error(event.stream)
            return
        if isinstance(event, Received):
            end.write(event.data)
        elif event.reset:
            del self._ends[event.stream]
            end.close()
        else:
            end.finish()

    def _forget_error(self, stream: int) -> None:
        """An error stream that was reset before its data stream came: its request is over."""
        for request in [each for each, error in self._errors.items() if error == stream]:
            del self._errors[request]

    def flush(self) -> None:
        if out := self._session.take():
            self.queue(out)
        super().flush()
