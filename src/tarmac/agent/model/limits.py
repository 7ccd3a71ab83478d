"""How much a cgroup may use, and how thousandths of a processor become time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_QUOTA: Final = 1000  # microseconds; the kernel takes no less
MOST_QUOTA: Final = (1 << 44) - 1  # nor more
MOST_MEMORY: Final = (1 << 63) - 1  # bytes, of the runtime's 64 bits
NONE: Final = -1
PERIOD: Final = 100_000  # microseconds


@dataclass(frozen=True, slots=True)
class Limits:
    """What to set; None leaves a limit as it is, -1 takes it away. Times in microseconds."""

    shares: int | None = None
    quota: int | None = None
    period: int = PERIOD
    memory: int | None = None
    pids: int | None = None
    huge_pages: Mapping[str, int] | None = None  # bytes by size: 2Mi


UNLIMITED: Final = Limits(quota=NONE, memory=NONE, pids=NONE)
"""What a new group has."""


def unlike(wanted: Limits, known: Limits) -> Limits:
    """What is left to set of the wanted, where the known is set already."""
    return Limits(
        shares=wanted.shares if wanted.shares != known.shares else None,
        quota=wanted.quota if (wanted.quota, wanted.period) != (known.quota, known.period) else None,
        period=wanted.period,
        memory=wanted.memory if wanted.memory != known.memory else None,
        pids=wanted.pids if wanted.pids != known.pids else None,
        huge_pages=wanted.huge_pages if wanted.huge_pages != known.huge_pages else None,
    )


def quota(milli: int, period: int) -> int:
    """Processors as time in each period; none when zero."""
    return max(LEAST_QUOTA, min(milli * period // 1000, MOST_QUOTA)) if milli else NONE
