"""Independent random streams from one seed: the draws of one part of a simulation do not shift those of another."""

from __future__ import annotations

from hashlib import sha256

from tarmac.base.randomness import Randomness


def stream(seed: int, name: str) -> Randomness:
    """Return the stream of this name."""
    return Randomness(int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:8]))
