"""A WebSocket client of raw bytes: message boundaries have no meaning."""

from __future__ import annotations

import asyncio

import msgspec

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import Channel
from tarmac.wire.websocket import MessageChunk


class RawClient(CommandClient):
    """Input and output only. The exit reason is sent as the close reason of the WebSocket."""

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
            self.said(Channel.STDIN, piece.data)
