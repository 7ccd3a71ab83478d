"""Randomness, injected.

With a seed every draw is reproducible (tests, simulation). Without one, identifiers and tokens come from the operating
system, so they cannot be guessed.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SECRET_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"

# Kubernetes' alphabet for generated names: no vowels, no 0, 1, 3, so that no words and no look-alikes appear.
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

_POOL = 1024  # bytes


class Randomness:
    """One stream of random draws."""

    def __init__(self, seed: int | None = None) -> None:
        self._seeded = seed is not None
        self._random = random.Random(seed)
        self._pool = b""  # from the operating system: one call for many identifiers

    def randbytes(self, count: int) -> bytes:
        """Return random bytes, for keys, nonces, masks."""
        if self._seeded:
            return self._random.randbytes(count)
        if len(self._pool) < count:
            self._pool = os.urandom(max(count, _POOL))
        taken, self._pool = self._pool[:count], self._pool[count:]
        return taken

    def suffix(self, n: int = 5) -> str:
        """Return letters for the end of a generated name."""
        return "".join(self._random.choices(SUFFIX_ALPHABET, k=n))

    def uuid(self) -> str:
        """Return a version 4 UUID."""
        raw = bytearray(self.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def uniform(self, a: float, b: float) -> float:
        """Return a number between a and b."""
        return self._random.uniform(a, b)

    def choice(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return self._random.choice(items)

    def token(self, nbytes: int = 32) -> str:
        """Return a URL-safe secret of `nbytes` bytes of entropy."""
        if not self._seeded:
            return secrets.token_urlsafe(nbytes)
        return self.randbytes(nbytes).hex()

    def secret_letters(self, n: int) -> str:
        """Return a secret of lower-case letters and digits, uniformly distributed."""
        found = ""
        while len(found) < n:
            # 252 is the largest multiple of 36 in a byte: above it some letters would come more often.
            found += "".join(SECRET_ALPHABET[byte % 36] for byte in self.randbytes(n) if byte < 252)
        return found[:n]
