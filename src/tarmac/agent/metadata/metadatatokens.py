"""Session tokens that an instance must request before it may read its metadata.

A proxy abused for server-side request forgery sends GET without headers chosen by the attacker; a token takes a PUT and
a header, and is valid only for its pod. Tokens are stateless: a token is its expiry with a signature over it and the
pod. The key is generated at start, so tokens expire with the agent; clients then request a new one.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.randomness import Randomness

MAX_TTL: Final = 6 * 3600
_END: Final = struct.Struct("!d")
_SIGNATURE: Final = 32


class MetadataTokens:
    """Issues and verifies tokens."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._key = randomness.token(32).encode()

    def give(self, pod_uid: str, seconds: int) -> str:
        """Return a token for a pod."""
        end = _END.pack(self._clock.monotonic() + seconds)
        return base64.urlsafe_b64encode(end + self._sign(end, pod_uid)).decode().rstrip("=")

    def is_good(self, token: str, pod_uid: str) -> bool:
        """Return True if a token belongs to this pod and has not expired."""
        try:
            raw = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            return False
        if len(raw) != _END.size + _SIGNATURE:
            return False
        end, signature = raw[: _END.size], raw[_END.size :]
        return (
            hmac.compare_digest(signature, self._sign(end, pod_uid)) and self._clock.monotonic() < _END.unpack(end)[0]
        )

    def _sign(self, end: bytes, pod_uid: str) -> bytes:
        return hmac.new(self._key, end + pod_uid.encode(), hashlib.sha256).digest()
