"""The stream of a command, as one SPDY connection to the runtime.

The runtime must accept all streams before data is sent on them. From then on reading is paused until a client is
attached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from tarmac.http.pacing import Paced
from tarmac.runtimes.interface import StreamClient, TerminalSize
from tarmac.wire.channels import STREAM_TYPE, Channel, failure
from tarmac.wire.spdy import Event, GoneAway, SpdySession, StreamData, StreamFinished, StreamReplied
from tarmac.wire.violations import ProtocolViolation

_INPUTS = (Channel.STDIN, Channel.RESIZE)
_EARLY = 1024 * 1024  # maximum bytes from the runtime before it has accepted every stream


class SpdyCommandStream(Paced):
    """Implements `CommandStream`. `ready` completes once the runtime has accepted every stream."""

    def __init__(self, transport: asyncio.Transport, channels: Sequence[Channel]) -> None:
        super().__init__()
        self.transport = transport
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = SpdySession(server=False, most_streams=0)  # the runtime may open none
        self._channels = {self._session.open({STREAM_TYPE: each.stream_type}): each for each in channels}
        self._streams = {channel: stream for stream, channel in self._channels.items()}
        self._unanswered = set(self._channels)
        self._outputs = {stream for stream, channel in self._channels.items() if channel not in _INPUTS}
        self._client: StreamClient | None = None
        self._begun = False
        self._early: list[Event] = []  # events received before `begin`
        self._early_size = 0
        self._status_sent = False  # the error channel has delivered the exit status

    def start(self, rest: bytes) -> None:
        """Take over the connection, with bytes received after its upgrade, and open the streams."""
        self.transport.set_protocol(self)
        self._flush()
        if rest:
            self.data_received(rest)

    def attach(self, client: StreamClient) -> None:
        self._client = client

    def begin(self) -> None:
        self._begun = True
        early, self._early = self._early, []
        self._hand_on(early)
        if self.transport.is_closing():
            self._end()
        else:
            self.hold(False)

    def write(self, data: bytes) -> None:
        if data:
            self._send(Channel.STDIN, data)

    def finish_input(self) -> None:
        self._send(Channel.STDIN, b"", fin=True)

    def resize(self, size: TerminalSize) -> None:
        # The decoder of runtimes buffers a value until it ends: send only numbers that we encoded.
        self._send(Channel.RESIZE, msgspec.json.encode({"Width": size.width, "Height": size.height}) + b"\n")

    def read(self, wanted: bool) -> None:
        self.hold(not wanted)

    def close(self) -> None:
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def received(self, piece: bytes) -> None:
        try:
            events = self._session.receive(piece)
        except ProtocolViolation as error:
            self._fail(f"the runtime does not speak SPDY: {error}")
            return
        self._flush()
        if self._begun:
            self._hand_on(events)
        else:
            self._keep(events, len(piece))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError("the runtime closed the connection"))
        self._end()

    def pause_writing(self) -> None:
        if self._client is not None:
            self._client.hold(True)

    def resume_writing(self) -> None:
        if self._client is not None:
            self._client.hold(False)

    def _send(self, channel: Channel, data: bytes, fin: bool = False) -> None:
        """Send on a channel; ignored for a channel that was not requested."""
        stream = self._streams.get(channel)
        if stream is not None:
            self._session.send(stream, data, fin)
            self._flush()

    def _keep(self, events: list[Event], size: int) -> None:
        self._early += events
        self._early_size += size
        self._unanswered -= {event.stream for event in events if isinstance(event, StreamReplied)}
        if self._early_size > _EARLY:
            self._fail("the runtime talks before it has agreed to the streams")
        elif not self._unanswered and not self.ready.done():
            self.ready.set_result(None)
            self.hold(True)  # until `begin`

    def _hand_on(self, events: list[Event]) -> None:
        client = self._client
        if client is None:
            return
        for event in events:
            self._handle(event, client)
        client.flush()
        if not self._outputs or any(isinstance(event, GoneAway) for event in events):
            self._end()

    def _handle(self, event: Event, client: StreamClient) -> None:
        if isinstance(event, StreamData) and event.stream in self._outputs:
            channel = self._channels[event.stream]
            self._status_sent = self._status_sent or channel is Channel.ERROR
            client.output(channel, event.data)
        elif isinstance(event, StreamFinished) and event.stream in self._outputs:
            self._outputs.discard(event.stream)
            if self._channels[event.stream] is not Channel.ERROR or self._status_sent:
                client.finish(self._channels[event.stream])

    def _fail(self, message: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(message))
        self.transport.abort()

    def _end(self) -> None:
        self.transport.close()
        client = self._client
        if client is not None:
            if not self._status_sent:
                self._status_sent = True
                client.output(Channel.ERROR, failure("the runtime broke off without saying how the command ended"))
            client.end()

    def _flush(self) -> None:
        out = self._session.take()
        if out and not self.transport.is_closing():
            self.transport.write(out)
