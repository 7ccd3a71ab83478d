"""A client that comes by SPDY, as kubectl of old and a real API server do: it opens a stream for each channel.

What the command says waits until the client has opened as many streams as it asked for; who has not done that after
`OPEN_SECONDS` is cut off. As with runtimes, a stream of a known type counts whether or not it was asked for (who
attaches does not know whether the container has a terminal); nothing comes on it.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.agent.http.spdyend import SpdyEnd
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import STREAM_TYPE, Channel
from tarmac.wire.spdy import Finished, Opened, Received, Session
from tarmac.wire.spdy.frames import Reset

OPEN_SECONDS = 30.0
_TYPES = {each.stream_type: each for each in Channel if each is not Channel.CLOSE}


class SpdyClient(SpdyEnd, CommandClient):
    """By `v4.channel.k8s.io` over SPDY. `streams` is how many it is to open."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, streams: int) -> None:
        super().__init__(transport, command, tunnelled=False)
        self._missing = streams
        self.session = Session(server=True, most_streams=len(_TYPES))
        self._streams: dict[Channel, int] = {}
        self._channels: dict[int, Channel] = {}
        self._late = asyncio.get_running_loop().call_later(OPEN_SECONDS, self.close)

    def output(self, channel: Channel, data: bytes) -> None:
        self.session.send(self._streams.get(channel, 0), data)

    def finish(self, channel: Channel) -> None:
        self.session.send(self._streams.get(channel, 0), b"", fin=True)

    def end(self) -> None:
        for channel in self._streams:
            self.finish(channel)
        self.session.go_away()
        self.flush()
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._late.cancel()
        super().connection_lost(exc)

    def said_on_stream(self, event: Received | Finished) -> None:
        channel = self._channels.get(event.stream)  # none for what came right behind a stream that was refused
        if channel is not None:
            data = event.data if isinstance(event, Received) else b""
            self.said(channel, data, fin=isinstance(event, Finished))

    def opened(self, stream: Opened) -> None:
        channel = _TYPES.get(stream.headers.get(STREAM_TYPE, ""))
        if channel is None or channel in self._streams:
            self.session.reset(stream.stream, Reset.REFUSED_STREAM)
            return
        self._streams[channel], self._channels[stream.stream] = stream.stream, channel
        self.session.accept(stream.stream)
        if stream.fin:
            self.said(channel, b"", fin=True)
        self._missing -= 1
        if self._missing == 0:
            self._late.cancel()
            self.flush()
            self._command.begin()
