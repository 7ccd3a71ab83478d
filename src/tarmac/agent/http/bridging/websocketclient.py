"""A client that comes by WebSocket: the first byte of each message is its channel."""

from __future__ import annotations

import asyncio

from tarmac.agent.http.bridging.commandclient import CommandClient
from tarmac.runtimes.interface import CommandStream
from tarmac.wire.channels import Channel
from tarmac.wire.websocket import Piece

_KNOWN = frozenset(Channel)


class WebSocketClient(CommandClient):
    """By `v4.channel.k8s.io` or, with `half_close`, v5."""

    def __init__(self, transport: asyncio.Transport, command: CommandStream, half_close: bool) -> None:
        super().__init__(transport, command, tunnelled=True)
        self._half_close = half_close
        self._channel: int | None = None  # of the message that is being read

    def start(self, rest: bytes) -> None:
        super().start(rest)
        self._command.begin()

    def output(self, channel: Channel, data: bytes) -> None:
        self.queue(bytes((channel,)), data)

    def finish(self, channel: Channel) -> None:
        """Not told: outputs end with the connection."""

    def end(self) -> None:
        self.close()

    def carried(self, piece: Piece) -> None:
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if not data or self._channel is None:
            return
        if self._channel == Channel.CLOSE:
            self._close(data[0])
        elif self._channel in _KNOWN:
            self.said(Channel(self._channel), data)

    def _close(self, channel: int) -> None:
        if self._half_close and channel in _KNOWN:
            self.said(Channel(channel), b"", fin=True)
