"""Messages of a WebSocket whose first byte is their channel."""

from __future__ import annotations

from tarmac.wire.websocket import Piece


class ChannelMessages:
    """Remembers the channel of the message that is being read: it may come in pieces."""

    __slots__ = ("_channel",)

    def __init__(self) -> None:
        self._channel: int | None = None

    def read(self, piece: Piece) -> tuple[int, bytes] | None:
        """The channel and what is said there; None when nothing is."""
        data = piece.data
        if piece.first:
            self._channel = None
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        return (self._channel, data) if data and self._channel is not None else None
