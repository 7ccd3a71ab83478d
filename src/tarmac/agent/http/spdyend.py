"""A client's connection that speaks SPDY, raw or tunnelled: frames are read, and each stream's events handed on."""

from __future__ import annotations

from tarmac.agent.http.clientend import ClientEnd
from tarmac.wire.spdy import Finished, GoneAway, Opened, Received, Session
from tarmac.wire.websocket import Piece


class SpdyEnd(ClientEnd):
    """Has a session, and whatever stands behind its streams."""

    session: Session

    def opened(self, stream: Opened) -> None:
        """The client has opened a stream, which is to be accepted or reset."""
        raise NotImplementedError

    def said_on_stream(self, event: Received | Finished) -> None:
        """The client says something on a stream, or no more; also on one that was refused a moment ago."""
        raise NotImplementedError

    def carried(self, piece: Piece) -> None:
        for event in self.session.receive(piece.data) if piece.data else ():
            if isinstance(event, Opened):
                self.opened(event)
            elif isinstance(event, Received | Finished):
                self.said_on_stream(event)
            elif isinstance(event, GoneAway):
                self.close()
        self.flush()

    def flush(self) -> None:
        if out := self.session.take():
            self.queue(out)
        super().flush()
