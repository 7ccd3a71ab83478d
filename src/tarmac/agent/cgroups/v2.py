"""Control groups of version 2: one tree, where a group's controllers are switched on in the group above it."""

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
from tarmac.agent.model.limits import NONE, Limits
from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.weights import MOST_SHARES

_CONTROLLERS: Final = ("cpuset", "cpu", "io", "memory", "hugetlb", "pids")


class V2:
    """The tree mounted at `top`."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def make(self, path: str) -> bool:
        """Make the group, with every controller there is on the way down; whether it is new."""
        above, new = self._top, False
        for name in path.strip("/").split("/"):
            self._switch_on(above)
            above = above / name
            new = make_folder(above)
        return new

    def limit(self, path: str, limits: Limits) -> None:
        """Set limits on a group. Raises CgroupError."""
        folder = self._folder(path)
        if limits.shares is not None:
            attempt(folder / "cpu.weight", str(weight(limits.shares)))
        if limits.quota is not None:
            attempt(folder / "cpu.max", f"{_or_max(limits.quota)} {limits.period}")
        if limits.memory is not None:
            attempt(folder / "memory.max", _or_max(limits.memory))
        if limits.pids is not None:
            attempt(folder / "pids.max", _or_max(limits.pids))
        for size, most in (limits.huge_pages or {}).items():
            file = folder / f"hugetlb.{page_size(size)}.max"
            if file.exists():  # where the controller is
                attempt(file, str(most))

    def widen(self, path: str) -> None:
        """A group that was told nothing does, and nobody tells the upper ones."""

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Put a group and those below on these processors. Raises CgroupError.

        A group never runs on what the one above it lacks, whatever it is given itself: so narrowing begins here.
        """
        folder = self._folder(path)
        for group, will in {folder: cpus, **{folder / name: each for name, each in inner.items()}}.items():
            if cpus_of(group) != will:
                give_cpus(group, will)

    def allowed(self, path: str) -> CPUSet:
        """As each process says."""
        return allowed_cpus(processes([self._folder(path)]))

    def entrances(self, path: str) -> Sequence[Path]:
        """The one of a group that has none below it."""
        return [self._folder(path) / "cgroup.procs"]

    def exists(self, path: str) -> bool:
        """Whether it is there."""
        return self._folder(path).is_dir()

    def children(self, path: str) -> Sequence[str]:
        """Names of the groups right below."""
        try:
            return sorted(entry.name for entry in os.scandir(self._folder(path)) if entry.is_dir())
        except OSError:
            return []

    def kill(self, path: str) -> int:
        """Kill every process in the group and below, in one step."""
        found = len(processes([self._folder(path)]))
        if found:
            attempt(self._folder(path) / "cgroup.kill", "1")
        return found

    def remove(self, path: str) -> bool:
        """Remove the group and those below."""
        return rmdir_tree(self._folder(path))

    def inhabitants(self, path: str) -> set[int]:
        """In the group and below."""
        return processes([self._folder(path)])

    def occupied(self, path: str) -> bool:
        """Not only below."""
        return inhabited(self._folder(path))

    def block_io(self) -> BlockIo | None:
        """The controller io."""
        return IoV2(self._top) if "io" in (self._top / "cgroup.controllers").read_text().split() else None

    def memory_used(self, path: str) -> int:
        """Usage less what has not been touched for a while."""
        folder = self._folder(path)
        return max(0, number(folder / "memory.current") - field(folder / "memory.stat", "inactive_file"))

    def memory_resident(self, path: str) -> int:
        """Anonymous memory."""
        return field(self._folder(path) / "memory.stat", "anon")

    def cpu_used(self, path: str) -> float:
        """The kernel counts microseconds."""
        return field(self._folder(path) / "cpu.stat", "usage_usec") / 1e6

    def oom_kills(self, path: str) -> int:
        """Of the group and those below."""
        return field(self._folder(path) / "memory.events", "oom_kill")

    def shares(self, path: str) -> int:
        """The weight of a group, on version 1's scale; 0 when there is none."""
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
    """Version 1's shares (2 to 262144) on version 2's scale (1 to 10000)."""
    return 10000 if shares >= MOST_SHARES else 1 + (shares - 2) * 9999 // 262142


def _or_max(limit: int) -> str:
    return "max" if limit == NONE else str(limit)
