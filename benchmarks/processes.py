"""Reads the resources of a process: CPU over all its threads, and resident memory.

CPU comes from the kernel's schedstat in nanoseconds, summed over threads, so helpers (a sync thread, a runtime's
collectors) count. It is the steady figure on shared machines; rates are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time used so far by whole processes."""
    total = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                total += int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:  # the thread ended meanwhile
                continue
    return total / 1e9


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of whole processes."""
    page = os.sysconf("SC_PAGE_SIZE")
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page for pid in pids)


def compiled(folder: Path) -> dict[str, str]:
    """Return an environment in which our program is compiled once, by its first run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}
