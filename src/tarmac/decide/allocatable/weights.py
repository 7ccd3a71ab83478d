"""Conversion of thousandths of a CPU to the weight of a container or pod against competing ones."""

from __future__ import annotations

from typing import Final

MIN_SHARES: Final = 2
MAX_SHARES: Final = 262144


def shares(milli: int) -> int:
    """Return the weight of a CPU amount, in units of the kernel's `cpu.shares`."""
    return min(MAX_SHARES, max(MIN_SHARES, milli * 1024 // 1000))
