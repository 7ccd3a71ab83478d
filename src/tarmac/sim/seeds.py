"""One seed, many independent streams of draws: what one part of a world draws does not shift what another draws."""

from __future__ import annotations

from hashlib import sha256

from tarmac.base.randomness import Randomness


def stream(seed: int, name: str) -> Randomness:
    """The stream of this name."""
    return Randomness(int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:8]))
