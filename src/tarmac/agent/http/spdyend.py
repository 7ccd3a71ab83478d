"""A client's SPDY connection, raw or tunnelled: parses frames and dispatches the events of streams."""

from __future__ import annotations

from tarmac.agent.http.clientend import ClientEnd
from tarmac.wire.spdy import GoneAway, SpdySession, StreamData, StreamFinished, StreamOpened
from tarmac.wire.websocket import MessageChunk


class SpdyEnd(ClientEnd):
    """The client end of a SPDY session. Subclasses handle its streams."""

    session: SpdySession

    def opened(self, stream: StreamOpened) -> None:
        """Accept or reset a stream opened by the client."""
        raise NotImplementedError

    def on_stream_event(self, event: StreamData | StreamFinished) -> None:
        """Handle data or the end of a stream; events of a stream refused just before arrive too."""
        raise NotImplementedError

    def carried(self, piece: MessageChunk) -> None:
        for event in self.session.receive(piece.data) if piece.data else ():
            if isinstance(event, StreamOpened):
                self.opened(event)
            elif isinstance(event, StreamData | StreamFinished):
                self.on_stream_event(event)
            elif isinstance(event, GoneAway):
                self.close()
        self.flush()

    def flush(self) -> None:
        if out := self.session.take():
            self.queue(out)
        super().flush()
