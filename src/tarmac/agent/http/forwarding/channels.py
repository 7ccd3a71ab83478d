"""A client that comes by a WebSocket with a pair of channels for each port of its query, as older libraries do."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence

from tarmac.agent.http.clientend import ClientEnd
from tarmac.agent.http.forwarding.podend import Dial, PodEnd
from tarmac.wire.websocket import Piece


class _ChannelPair:
    """Lane of a pair of channels: data, and behind it error."""

    def __init__(self, forward: ChannelForward, number: int) -> None:
        self._forward = forward
        self._number = number

    @property
    def backed_up(self) -> bool:
        return self._forward.backed_up

    def send(self, data: bytes) -> None:
        self._forward.queue(bytes((self._number,)), data)
        self._forward.flush()

    def closed(self, error: str | None) -> None:
        if error is not None:
            self._forward.queue(bytes((self._number + 1,)), error.encode())
            self._forward.flush()
        self._forward.ended()

    def hold(self, held: bool) -> None:
        self._forward.hold(held)


class ChannelForward(ClientEnd):
    """Port-forward by channels of a WebSocket, one pair for each port of the query."""

    def __init__(self, transport: asyncio.Transport, ports: Sequence[int], dial: Dial) -> None:
        super().__init__(transport, tunnelled=True)
        self._channel: int | None = None
        self._left = len(ports)
        self._ends: list[PodEnd] = []
        for index, port in enumerate(ports):
            for number in (2 * index, 2 * index + 1):
                self.queue(bytes((number,)), struct.pack("<H", port))
            self._ends.append(PodEnd(_ChannelPair(self, 2 * index), dial, port))
        self.flush()

    def ends(self) -> Sequence[PodEnd]:
        return self._ends

    def carried(self, piece: Piece) -> None:
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        if data and self._channel is not None and self._channel % 2 == 0 and self._channel // 2 < len(self._ends):
            self._ends[self._channel // 2].write(data)

    def ended(self) -> None:
        """One of the connections to the pod has ended."""
        self._left -= 1
        if self._left == 0:
            self.close()
