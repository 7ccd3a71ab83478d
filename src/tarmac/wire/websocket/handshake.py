"""The handshake: the client's key, the server's proof, and the offered subprotocols."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from tarmac.base.randomness import Randomness
from tarmac.wire.violations import ProtocolViolation

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # fixed by RFC 6455


def new_key(randomness: Randomness) -> str:
    """Return a client's `Sec-WebSocket-Key`."""
    return base64.b64encode(randomness.randbytes(16)).decode()


def accept_key(key: str) -> str:
    """Return the `Sec-WebSocket-Accept` for a key."""
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()


def offered(headers: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the key and the subprotocols of a client's request, in its order. Raises ProtocolViolation."""
    key = headers.get("sec-websocket-key", "")
    if headers.get("sec-websocket-version") != "13" or not key:
        raise ProtocolViolation("a WebSocket of version 13 with a key is wanted")
    protocols = headers.get("sec-websocket-protocol", "")
    return key, [each for each in (part.strip() for part in protocols.split(",")) if each]
