"""A WebSocket client with a pair of channels for each port of its query, as older libraries use it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from tarmac.agent.http.channelmessages import ChannelMessages
from tarmac.agent.http.clientend import ClientEnd
from tarmac.agent.http.forwarding.lane import ClientLane
from tarmac.agent.http.forwarding.podend import Dial, PodEnd
from tarmac.wire.websocket import MessageChunk


class _ChannelPair(ClientLane["ChannelForward"]):
    """Lane of a pair of channels: data, followed by error."""

    def __init__(self, forward: ChannelForward, number: int) -> None:
        super().__init__(forward)
        self._number = number

    def send(self, data: bytes) -> None:
        self._forward.queue(bytes((self._number,)), data)
        self._forward.flush()

    def closed(self, error: str | None) -> None:
        if error is not None:
            self._forward.queue(bytes((self._number + 1,)), error.encode())
            self._forward.flush()
        self._forward.ended()


class ChannelForward(ClientEnd):
    """Port-forward over WebSocket channels, one pair for each port of the query."""

    def __init__(self, transport: asyncio.Transport, ports: Sequence[int], dial: Dial) -> None:
        super().__init__(transport, tunnelled=True)
        self._messages = ChannelMessages()
        self._left = len(ports)
        self._ends: list[PodEnd] = []
        for index, port in enumerate(ports):
            for number in (2 * index, 2 * index + 1):
                self.queue(bytes((number,)), struct.pack("<H", port))
            self._ends.append(PodEnd(_ChannelPair(self, 2 * index), dial, port))
        self.flush()

    def ends(self) -> Sequence[PodEnd]:
        return self._ends

    def carried(self, piece: MessageChunk) -> None:
        message = self._messages.read(piece)
        if message is not None and message[0] % 2 == 0 and message[0] // 2 < len(self._ends):
            self._ends[message[0] // 2].write(message[1])

    def ended(self) -> None:
        """Close the client after the last connection to the pod has ended."""
        self._left -= 1
        if self._left == 0:
            self.close()
