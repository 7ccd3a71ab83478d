"""Tokens that an instance must ask for before it may read about itself.

A proxy that can be talked into fetching an address sends GET without headers of the attacker's choice; a token takes a
PUT and a header, and is good for its pod only. Nothing is kept: a token is its end and a signature over it and the pod.
The key is made at start, so that tokens end with the agent; whoever holds one asks for another.
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

LONGEST: Final = 6 * 3600
_END: Final = struct.Struct("!d")
_SIGNATURE: Final = 32


class MetadataTokens:
    """Gives out and checks."""

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._key = randomness.token(32).encode()

    def give(self, pod_uid: str, seconds: int) -> str:
        """A token for a pod."""
        end = _END.pack(self._clock.monotonic() + seconds)
        return base64.urlsafe_b64encode(end + self._sign(end, pod_uid)).decode().rstrip("=")

    def is_good(self, token: str, pod_uid: str) -> bool:
        """Whether a token is this pod's, and has not ended."""
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
