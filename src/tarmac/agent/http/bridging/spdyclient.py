"""A SPDY client, such as old versions of kubectl and kube-apiserver: it opens one stream per channel.

Output is held back until the client has opened as many streams as it requested; after `OPEN_TIMEOUT` without them it is
disconnected. As in runtimes, a stream of a known type counts even if it was not requested (a client that attaches does
not know if the container has a terminal); it stays empty.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.agent.http.spdyend import SpdyEnd
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import STREAM_TYPE, Channel
from tarmac.wire.spdy import SpdySession, StreamData, StreamFinished, StreamOpened
from tarmac.wire.spdy.frames import Reset

OPEN_TIMEOUT = 30.0
_TYPES = {each.stream_type: each for each in Channel if each is not Channel.CLOSE}


class SpdyClient(SpdyEnd, CommandClient):
    """A client of `v4.channel.k8s.io` over SPDY. `streams` is the number of streams it must open."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, streams: int) -> None:
        super().__init__(transport, command, tunnelled=False)
        self._missing = streams
        self.session = SpdySession(server=True, most_streams=len(_TYPES))
        self._streams: dict[Channel, int] = {}
        self._channels: dict[int, Channel] = {}
        self._late = asyncio.get_running_loop().call_later(OPEN_TIMEOUT, self.close)

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

    def on_stream_event(self, event: StreamData | StreamFinished) -> None:
        channel = self._channels.get(event.stream)  # None for data sent right after a stream that was refused
        if channel is not None:
            data = event.data if isinstance(event, StreamData) else b""
            self.on_data(channel, data, fin=isinstance(event, StreamFinished))

    def opened(self, stream: StreamOpened) -> None:
        channel = _TYPES.get(stream.headers.get(STREAM_TYPE, ""))
        if channel is None or channel in self._streams:
            self.session.reset(stream.stream, Reset.REFUSED_STREAM)
            return
        self._streams[channel], self._channels[stream.stream] = stream.stream, channel
        self.session.accept(stream.stream)
        if stream.fin:
            self.on_data(channel, b"", fin=True)
        self._missing -= 1
        if self._missing == 0:
            self._late.cancel()
            # Before the output begins: the client must see the replies to its streams first.
            self.flush()
            self._command.begin()
