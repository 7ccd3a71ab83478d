"""WebSocket messages whose first byte is their channel."""

from __future__ import annotations

from tarmac.wire.websocket import MessageChunk


class ChannelMessages:
    """Keeps the channel of the current message, which may arrive in fragments."""

    __slots__ = ("_channel",)

    def __init__(self) -> None:
        self._channel: int | None = None

    def read(self, piece: MessageChunk) -> tuple[int, bytes] | None:
        """Return the channel and the data; None for a fragment without data."""
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        return (self._channel, data) if data and self._channel is not None else None
