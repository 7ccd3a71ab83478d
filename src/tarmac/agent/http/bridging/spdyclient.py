"""A client that comes by SPDY, as kubectl of old and a real API server do: it opens a stream for each channel.

What the command says waits until the client has opened as many streams as it asked for; who has not done that after
`OPEN_SECONDS` is cut off. As with runtimes, a stream of a known type counts whether or not it was asked for (who
attaches does not know whether the container has a terminal); nothing comes on it.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import STREAM_TYPE, Channel
from tarmac.wire.spdy import Finished, GoneAway, Opened, Received, Session
from tarmac.wire.spdy.frames import Reset
from tarmac.wire.websocket import Piece

OPEN_SECONDS = 30.0
_TYPES = {each.stream_type: each for each in Channel if each is not Channel.CLOSE}


class SpdyClient(CommandClient):
    """By `v4.channel.k8s.io` over SPDY. `streams` is how many it is to open."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, streams: int) -> None:
        super().__init__(transport, command, tunnelled=False)
        self._missing = streams
        self._session = Session(server=True, most_streams=len(_TYPES))
        self._streams: dict[Channel, int] = {}
        self._channels: dict[int, Channel] = {}
        self._late = asyncio.get_running_loop().call_later(OPEN_SECONDS, self.close)

    def output(self, channel: Channel, data: bytes) -> None:
        self._session.send(self._streams.get(channel, 0), data)

    def finish(self, channel: Channel) -> None:
        self._session.send(self._streams.get(channel, 0), b"", fin=True)

    def flush(self) -> None:
        if out := self._session.take():
            self.queue(out)
        super().flush()

    def end(self) -> None:
        for channel in self._streams:
            self.finish(channel)
        self._session.go_away()
        self.flush()
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def carried(self, piece: Piece) -> None:
        for event in self._session.receive(piece.data):
            if isinstance(event, Opened):
                self._open(event)
            elif isinstance(event, Received | Finished):
                self._pass_on(event)
            elif isinstance(event, GoneAway):
                self.close()
        self.flush()

    def _pass_on(self, event: Received | Finished) -> None:
        channel = self._channels.get(event.stream)  # none for what came right behind a stream that was refused
        if channel is not None:
            data = event.data if isinstance(event, Received) else b""
            self.said(channel, data, fin=isinstance(event, Finished))

    def _open(self, opened: Opened) -> None:
        channel = _TYPES.get(opened.headers.get(STREAM_TYPE, ""))
        if channel is None or channel in self._streams:
            self._session.reset(opened.stream, Reset.REFUSED_STREAM)
            return
        self._streams[channel], self._channels[opened.stream] = opened.stream, channel
        self._session.accept(opened.stream)
        if opened.fin:
            self.said(channel, b"", fin=True)
        self._missing -= 1
        if self._missing == 0:
            self._late.cancel()
            self.flush()
            self._command.begin()
