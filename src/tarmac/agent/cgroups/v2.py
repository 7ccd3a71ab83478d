"""Control groups v2: one tree; a group's controllers are enabled in its parent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.blockio import IoV2
from tarmac.agent.cgroups.hierarchy import (
    BlockIo,
    allowed_cpus,
    attempt,
    cpus_of,
    field,
    give_cpus,
    inhabited,
    make_folder,
    number,
    page_size,
    processes,
    rmdir_tree,
)
from tarmac.agent.model.cgrouplimits import NONE, CgroupLimits
from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.weights import MAX_SHARES

_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


class V2:
    """The tree mounted at `top`."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def make(self, path: str) -> bool:
        """Create the group, enabling all available controllers on the path; return True if it is new."""
        above, new = self._top, False
        for name in path.strip("/").split("/"):
            # The control files of a child exist only once its parent enables them. The kernel answers EBUSY if the
            # parent has processes of its own.
            self._switch_on(above)
            above = above / name
            new = make_folder(above)
        return new

    def limit(self, path: str, limits: CgroupLimits) -> None:
        """Set limits on a group. Raises CgroupError."""
        folder = self._folder(path)
        if limits.shares is not None:
            attempt(folder / "cpu.weight", str(weight(limits.shares)))
        if limits.quota is not None:
            attempt(folder / "cpu.max", f"{_or_max(limits.quota)} {limits.period}")
        if limits.memory is not None:
            # Unlike v1, which refuses a limit it cannot reclaim to, v2 accepts it and kills processes of the group.
            attempt(folder / "memory.max", _or_max(limits.memory))
        if limits.pids is not None:
            attempt(folder / "pids.max", _or_max(limits.pids))
        for size, most in (limits.huge_pages or {}).items():
            file = folder / f"hugetlb.{page_size(size)}.max"
            if file.exists():  # only with the controller
                attempt(file, str(most))

    def widen(self, path: str) -> None:
        """Do nothing: a v2 group without a cpuset of its own has its parent's, and the upper groups have none."""

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Restrict a group and its child groups to these CPUs. Raises CgroupError.

        A group never runs on a CPU that its parent lacks, whatever its own set is, so the parent is restricted first.
        """
        folder = self._folder(path)
        for group, will in {folder: cpus, **{folder / name: each for name, each in inner.items()}}.items():
            if cpus_of(group) != will:
                give_cpus(group, will)

    def allowed(self, path: str) -> CPUSet:
        """Return the union of all processes' allowed CPUs."""
        return allowed_cpus(processes([self._folder(path)]))

    def entrances(self, path: str) -> Sequence[Path]:
        """Return the group's only entry file; the group must have no child groups."""
        return [self._folder(path) / "cgroup.procs"]

    def exists(self, path: str) -> bool:
        """Return True if the group exists."""
        return self._folder(path).is_dir()

    def children(self, path: str) -> Sequence[str]:
        """Return the names of direct child groups."""
        try:
            return sorted(entry.name for entry in os.scandir(self._folder(path)) if entry.is_dir())
        except OSError:
            return []

    def kill(self, path: str) -> int:
        """Kill all processes in the group and its child groups atomically."""
        found = len(processes([self._folder(path)]))
        if found:
            # Needs Linux 5.14. The kernel also kills processes that fork during the call.
            attempt(self._folder(path) / "cgroup.kill", "1")
        return found

    def remove(self, path: str) -> bool:
        """Remove the group and its child groups."""
        return rmdir_tree(self._folder(path))

    def inhabitants(self, path: str) -> set[int]:
        """Return the processes in the group and its child groups."""
        return processes([self._folder(path)])

    def occupied(self, path: str) -> bool:
        """Return True if the group itself has processes."""
        return inhabited(self._folder(path))

    def block_io(self) -> BlockIo | None:
        """Return the limits of the controller io."""
        return IoV2(self._top) if "io" in (self._top / "cgroup.controllers").read_text().split() else None

    def memory_used(self, path: str) -> int:
        """Return the usage without inactive file pages."""
        folder = self._folder(path)
        return max(0, number(folder / "memory.current") - field(folder / "memory.stat", "inactive_file"))

    def memory_resident(self, path: str) -> int:
        """Return the anonymous memory."""
        return field(self._folder(path) / "memory.stat", "anon")

    def cpu_used(self, path: str) -> float:
        """Convert the kernel's microseconds."""
        return field(self._folder(path) / "cpu.stat", "usage_usec") / 1e6

    def oom_kills(self, path: str) -> int:
        """Return the kills in the group and its child groups."""
        # The kernel counts child groups too, unless cgroup2 is mounted with memory_localevents.
        return field(self._folder(path) / "memory.events", "oom_kill")

    def shares(self, path: str) -> int:
        """Return the weight of a group, on the scale of v1; 0 without one."""
        found = number(self._folder(path) / "cpu.weight")
        return 2 + (found - 1) * 262142 // 9999 if found else 0

    def _folder(self, path: str) -> Path:
        return self._top / path.lstrip("/")

    def _switch_on(self, folder: Path) -> None:
        offered = (folder / "cgroup.controllers").read_text().split()
        on = (folder / "cgroup.subtree_control").read_text().split()
        missing = [f"+{name}" for name in _CONTROLLERS if name in offered and name not in on]
        if missing:
            attempt(folder / "cgroup.subtree_control", " ".join(missing))


def weight(shares: int) -> int:
    """Convert v1 shares (2 to 262144) to the scale of v2 (1 to 10000)."""
    return 10000 if shares >= MAX_SHARES else 1 + (shares - 2) * 9999 // 262142


def _or_max(limit: int) -> str:
    return "max" if limit == NONE else str(limit)
