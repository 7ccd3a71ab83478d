"""WebSocket clients: with the channel in the first byte of each message, or of raw bytes."""

from __future__ import annotations

import asyncio

import msgspec

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.agent.http.channelmessages import ChannelMessages
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import Channel
from tarmac.wire.websocket import MessageChunk

_KNOWN = frozenset(Channel)


class WebSocketClient(CommandClient):
    """A client of `v4.channel.k8s.io` or, with `half_close`, of v5."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, half_close: bool) -> None:
        super().__init__(transport, command, tunnelled=True)
        self._half_close = half_close
        self._messages = ChannelMessages()

    def start(self, rest: bytes) -> None:
        super().start(rest)
        self._command.begin()

    def output(self, channel: Channel, data: bytes) -> None:
        self.queue(bytes((channel,)), data)

    def finish(self, channel: Channel) -> None:
        """Send nothing: outputs end with the connection."""

    def end(self) -> None:
        self.close()

    def carried(self, piece: MessageChunk) -> None:
        message = self._messages.read(piece)
        if message is None:
            return
        channel, data = message
        if channel == Channel.CLOSE:
            self._close(data[0])
        elif channel in _KNOWN:
            self.on_data(Channel(channel), data)

    def _close(self, channel: int) -> None:
        if self._half_close and channel in _KNOWN:
            self.on_data(Channel(channel), b"", fin=True)


class RawClient(CommandClient):
    """Input and output only: message boundaries have no meaning.

    The exit reason is sent as the close reason of the WebSocket.
    """

    def __init__(self, transport: asyncio.Transport, command: CommandStream) -> None:
        super().__init__(transport, command, tunnelled=True)
        self._why = ""

    def start(self, rest: bytes) -> None:
        super().start(rest)
        self._command.begin()

    def output(self, channel: Channel, data: bytes) -> None:
        if channel is Channel.STDOUT:
            self.queue(data)
        elif channel is Channel.ERROR:
            self._why = msgspec.json.decode(data).get("message", "")

    def finish(self, channel: Channel) -> None:
        """Send nothing: the output ends with the connection."""

    def end(self) -> None:
        self.close(1008 if self._why else 1000, self._why)

    def carried(self, piece: MessageChunk) -> None:
        if piece.data:
            self.on_data(Channel.STDIN, piece.data)
