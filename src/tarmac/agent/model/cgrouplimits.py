"""Limits of a cgroup, and the conversion of millicores to CPU time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

MIN_QUOTA: Final = 1000  # microseconds; the kernel's minimum
MAX_QUOTA: Final = (1 << 44) - 1  # the kernel's maximum
MAX_MEMORY: Final = (1 << 63) - 1  # bytes; the runtime uses 64 bits
NONE: Final = -1
PERIOD: Final = 100_000  # microseconds


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """Limits to set; None leaves a limit unchanged, -1 removes it. Times in microseconds."""

    shares: int | None = None
    quota: int | None = None
    period: int = PERIOD
    memory: int | None = None
    pids: int | None = None
    huge_pages: Mapping[str, int] | None = None  # bytes by size: 2Mi


UNLIMITED: Final = CgroupLimits(quota=NONE, memory=NONE, pids=NONE)
"""The limits of a new cgroup."""


def unlike(wanted: CgroupLimits, known: CgroupLimits) -> CgroupLimits:
    """Return the wanted limits that differ from the known ones."""
    return CgroupLimits(
        shares=wanted.shares if wanted.shares != known.shares else None,
        quota=wanted.quota if (wanted.quota, wanted.period) != (known.quota, known.period) else None,
        period=wanted.period,
        memory=wanted.memory if wanted.memory != known.memory else None,
        pids=wanted.pids if wanted.pids != known.pids else None,
        huge_pages=wanted.huge_pages if wanted.huge_pages != known.huge_pages else None,
    )


def quota(milli: int, period: int) -> int:
    """Return the CPU time per period for millicores; NONE for zero."""
    return max(MIN_QUOTA, min(milli * period // 1000, MAX_QUOTA)) if milli else NONE
