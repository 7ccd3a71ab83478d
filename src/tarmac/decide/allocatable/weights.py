"""How thousandths of a processor become weight: what a container or a pod counts against others that want to run."""

from __future__ import annotations

from typing import Final

LEAST_SHARES: Final = 2
MOST_SHARES: Final = 262144


def shares(milli: int) -> int:
    """Processors as weight, as `cpu.shares` of the kernel counts it."""
    return min(MOST_SHARES, max(LEAST_SHARES, milli * 1024 // 1000))
