"""WebSocket (RFC 6455) for both roles: the handshake's keys, and frames without any I/O."""

from tarmac.wire.websocket.frames import Closed, Event, MessageChunk, Pinged, Ponged, Socket
from tarmac.wire.websocket.handshake import accept_key, new_key, offered

__all__ = ["Closed", "Event", "MessageChunk", "Pinged", "Ponged", "Socket", "accept_key", "new_key", "offered"]
