"""exec and attach between a WebSocket of a client and SPDY to the runtime.

The runtime's end is opened first: its streams must be agreed to before anything is sent on them. Then every message of
the client becomes data of a stream and the other way round, without tasks: each end writes into the other, and an end
that is backed up stops the reading of the other. The session is over when the runtime has ended its streams or the
connection; a client that goes takes the runtime's end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from tarmac.http.sockets import untaken
from tarmac.wire.channels import STREAM_TYPE, Channel, failure
from tarmac.wire.spdy import Event, Finished, GoneAway, Received, Replied, Session
from tarmac.wire.violations import Violation
from tarmac.wire.websocket import Closed, Piece, Socket

LINGER = 30.0
FLOOD = 1024 * 1024  # bytes of answers that a client may leave untaken before it is not heard any more
_INPUTS = (Channel.STDIN, Channel.RESIZE)


class RuntimeEnd(asyncio.Protocol):
    """The SPDY connection to the runtime. `ready` is done once it has agreed to every stream."""

    def __init__(self, transport: asyncio.Transport, channels: Sequence[Channel]) -> None:
        self.transport = transport
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = Session(server=False)
        self._channels = {self._session.open({STREAM_TYPE: each.stream_type}): each for each in channels}
        self._streams = {channel: stream for stream, channel in self._channels.items()}
        self._unanswered = set(self._channels)
        self._outputs = {stream for stream, channel in self._channels.items() if channel not in _INPUTS}
        self._client: ClientEnd | None = None
        self._early: list[Event] = []  # what came before there was a client's end
        self._told = False  # the error channel has said how it ended

    def start(self, rest: bytes) -> None:
        """Take the connection over, with what came behind its upgrade."""
        self.transport.set_protocol(self)
        self._flush()
        if rest:
            self.data_received(rest)

    def attach(self, client: ClientEnd) -> None:
        """From now on everything goes to the client."""
        self._client = client
        early, self._early = self._early, []
        for event in early:
            self._handle(event, client)
        if self.transport.is_closing():
            self._end()
        else:
            self.transport.resume_reading()

    def send(self, channel: int, data: bytes, fin: bool = False) -> None:
        """What the client says. Channels that were not asked for are nowhere."""
        stream = self._streams.get(cast("Channel", channel))
        if stream is not None and channel in _INPUTS:
            self._session.send(stream, data, fin)
            self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._session.receive(data)
        except Violation as error:
            self._fail(f"the runtime does not speak SPDY: {error}")
            return
        self._flush()
        for event in events:
            self._note(event)
            if self._client is None:
                self._early.append(event)
            else:
                self._handle(event, self._client)

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

    def _note(self, event: Event) -> None:
        if isinstance(event, Replied):
            self._unanswered.discard(event.stream)
            if not self._unanswered and not self.ready.done():
                self.ready.set_result(None)
                if self._client is None:
                    self.transport.pause_reading()

    def _handle(self, event: Event, client: ClientEnd) -> None:
        if isinstance(event, Received):
            channel = self._channels[event.stream]
            self._told = self._told or channel is Channel.ERROR
            client.send(channel, event.data)
        elif isinstance(event, Finished):
            self._outputs.discard(event.stream)
            if not self._outputs:
                self._end()
        elif isinstance(event, GoneAway):
            self._end()

    def _fail(self, message: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(message))
        self.transport.abort()

    def _end(self) -> None:
        self.transport.close()
        client = self._client
        if client is not None:
            if not self._told:
                self._told = True
                client.send(Channel.ERROR, failure("the runtime broke off without saying how the command ended"))
            client.end()

    def _flush(self) -> None:
        out = self._session.take()
        if out and not self.transport.is_closing():
            self.transport.write(out)


class ClientEnd(asyncio.Protocol):
    """The WebSocket of a client, by `v4.channel.k8s.io` or, with `half_close`, v5."""

    def __init__(self, transport: asyncio.Transport, runtime: RuntimeEnd, half_close: bool) -> None:
        self._transport = transport
        self._runtime = runtime
        self._half_close = half_close
        self._socket = Socket(server=True)
        self._channel: int | None = None  # of the message that is being read
        self._ended = False
        self._flooded = False
        self._held = 0
        self._cut: asyncio.TimerHandle | None = None

    def start(self, rest: bytes) -> None:
        """Take the connection over, with what came behind its upgrade."""
        self._transport.set_protocol(self)
        self._runtime.attach(self)
        if rest:
            self.data_received(rest)

    def send(self, channel: Channel, data: bytes) -> None:
        """One message."""
        if not self._ended:
            self._socket.send(bytes((channel,)), data)
            self._flush()

    def end(self) -> None:
        """Say good-bye behind what is still to be sent; who does not read it is cut off after a while."""
        if not self._ended:
            self._ended = True
            self._socket.close(1000)
            self._flush()
            self._transport.close()
            self._cut = asyncio.get_running_loop().call_later(LINGER, self._transport.abort)

    def hold(self, held: bool) -> None:
        """One more, or one less, reason not to read from the client."""
        self._held += 1 if held else -1
        if not self._transport.is_closing():
            self._transport.pause_reading() if self._held else self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._socket.receive(data)
        except Violation as error:
            self._socket.close(1002, str(error))
            events = [Closed(1002, "")]
        for event in events:
            if isinstance(event, Piece):
                self._on_piece(event)
            elif isinstance(event, Closed):
                self.end()
        self._flush()
        if not self._flooded and untaken(self._transport) > FLOOD:
            self._flooded = True  # it asks for answers (pings) and does not take them
            self.hold(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        if self._cut is not None:
            self._cut.cancel()
        self._runtime.transport.close()

    def pause_writing(self) -> None:
        if not self._runtime.transport.is_closing():
            self._runtime.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._flooded:
            self._flooded = False
            self.hold(False)
        if not self._runtime.transport.is_closing():
            self._runtime.transport.resume_reading()

    def _on_piece(self, piece: Piece) -> None:
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if not data or self._channel is None:
            return
        if self._channel != Channel.CLOSE:
            self._runtime.send(self._channel, data)
        elif self._half_close:
            self._runtime.send(data[0], b"", fin=True)

    def _flush(self) -> None:
        out = self._socket.take()
        if out and not self._transport.is_closing():
            self._transport.write(out)
