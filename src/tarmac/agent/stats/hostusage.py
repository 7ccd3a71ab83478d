"""Usage of the whole host, read from /proc: kernel counters, no history.

`/proc/net` shows the network namespace of the agent, which is the node's; everything else covers the whole host.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_PAGE_FAULTS = ("pgfault", "pgmajfault")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. The working set excludes memory that can be reclaimed at once."""

    total: int
    usage: int
    working_set: int
    rss: int
    page_faults: int
    major_page_faults: int

    @property
    def available(self) -> int:
        """Memory available to new processes."""
        return max(0, self.total - self.working_set)


@dataclass(frozen=True, slots=True)
class FileSystem:
    """Bytes and inodes of one file system."""

    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int


@dataclass(frozen=True, slots=True)
class InterfaceStats:
    """Bytes and errors of one interface."""

    name: str
    received: int
    receive_errors: int
    transmitted: int
    transmit_errors: int


class MachineStats:
    """Reads usage of the host. `group_memory` returns the working set of the root cgroup, or 0 without one."""

    def __init__(self, group_memory: Callable[[], int] = lambda: 0, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._group_memory = group_memory

    def cpu(self) -> float:
        """Return core-seconds since boot, without idle time."""
        fields = self._read("stat").split("\n", 1)[0].split()[1:]
        # Guest time is part of user time already; idle, waiting and stolen time are no use of this host.
        user, nice, system, _idle, _wait, irq, softirq = map(int, fields[:7])
        return (user + nice + system + irq + softirq) * _TICK

    def started(self) -> float:
        """Return the boot time in Unix seconds."""
        return float(self._read("stat").partition("\nbtime ")[2].split()[0])

    def memory(self) -> Memory:
        """Return the current memory usage."""
        info = _numbers(self._read("meminfo"), ":")
        faults = _numbers(self._read("vmstat"), " ")
        total = info["MemTotal"] * 1024
        usage = total - info["MemFree"] * 1024
        # cgroup v2 has no memory.current at its root: the figure is 0 there, and is computed from meminfo.
        working_set = self._group_memory() or max(0, usage - info.get("Inactive(file)", 0) * 1024)
        return Memory(
            total, usage, working_set, info.get("AnonPages", 0) * 1024, *(faults[name] for name in _PAGE_FAULTS)
        )

    def processes(self) -> tuple[int, int]:
        """Return the maximum and the current number of processes."""
        most = min(int(self._read("sys/kernel/pid_max")), int(self._read("sys/kernel/threads-max")))
        # The kernel counts threads here, which is also what pid_max and threads-max limit.
        return most, int(self._read("loadavg").split()[3].partition("/")[2])

    def links(self) -> list[InterfaceStats]:
        """Return the interfaces of the node except its loopback."""
        found: list[InterfaceStats] = []
        for line in self._read("net/dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            numbers = list(map(int, rest.split()))
            if name.strip() != "lo":
                found.append(InterfaceStats(name.strip(), numbers[0], numbers[2], numbers[8], numbers[10]))
        return found

    def _read(self, file: str) -> str:
        return (self._proc / file).read_text()


def file_system(path: str | Path) -> FileSystem:
    """Return the file system of a path. Raises OSError."""
    found = os.statvfs(path)
    # statvfs counts blocks in units of f_frsize, which may differ from f_bsize.
    unit = found.f_frsize
    return FileSystem(
        capacity=found.f_blocks * unit,
        available=found.f_bavail * unit,
        used=(found.f_blocks - found.f_bfree) * unit,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
    )


def _numbers(text: str, separator: str) -> dict[str, int]:
    pairs = (line.partition(separator) for line in text.splitlines())
    return {name: int(rest.split()[0]) for name, _, rest in pairs}
