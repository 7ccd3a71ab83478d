"""Control groups of version 1: each controller has a tree of its own, and a group is a folder in each of them.

Four traps: controllers may or may not share a mount (here cpu and cpuacct do not); a new cpuset is empty and takes no
process until processors and memory nodes are copied from its parent; a quota below that of a group further down is
refused; and a group has to be removed from every tree, also from those (devices, freezer, systemd's) that only the
runtime writes to.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tarmac.agent.cgroups.blockio import BlkioV1
from tarmac.agent.cgroups.hierarchy import (
    BlockIo,
    CgroupError,
    allowed_cpus,
    attempt,
    below,
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

_MADE_IN: Final = ("cpu", "cpuacct", "cpuset", "memory", "pids", "hugetlb", "blkio", "freezer", "devices")
_CPUSET_FILES: Final = ("cpuset.cpus", "cpuset.mems")


class V1:
    """The mounted controllers, by name."""

    def __init__(self, mounts: Mapping[str, Path]) -> None:
        self._mounts = mounts
        self._made_in = tuple(dict.fromkeys(mounts[name] for name in _MADE_IN if name in mounts))
        self._all = tuple(dict.fromkeys(mounts.values()))

    def make(self, path: str) -> bool:
        """Make the group in every tree that limits or measures; whether it is new in all of them."""
        new = [make_folder(mount / path.lstrip("/")) for mount in self._made_in]
        if "cpuset" in self._mounts:
            for file in _CPUSET_FILES:
                self._inherit(self._mounts["cpuset"] / path.lstrip("/"), file)
        return all(new)

    def limit(self, path: str, limits: Limits) -> None:
        """Set limits on a group. Raises CgroupError."""
        if limits.shares is not None:
            attempt(self._file("cpu", path, "cpu.shares"), str(limits.shares))
        if limits.quota is not None:
            self._bring_down(path, limits.quota, limits.period)
            attempt(self._file("cpu", path, "cpu.cfs_period_us"), str(limits.period))
            attempt(self._file("cpu", path, "cpu.cfs_quota_us"), str(limits.quota))
        if limits.memory is not None:
            attempt(self._file("memory", path, "memory.limit_in_bytes"), str(limits.memory))
        if limits.pids is not None and "pids" in self._mounts:
            attempt(self._file("pids", path, "pids.max"), "max" if limits.pids == NONE else str(limits.pids))
        if limits.huge_pages is not None and "hugetlb" in self._mounts:
            for size, most in limits.huge_pages.items():
                attempt(self._file("hugetlb", path, f"hugetlb.{page_size(size)}.limit_in_bytes"), str(most))

    def widen(self, path: str) -> None:
        """Let a group run wherever the one above it does: processors that came later are not in it by themselves."""
        if "cpuset" in self._mounts:
            group = self._mounts["cpuset"] / path.lstrip("/")
            if (cpus := cpus_of(group.parent)) != cpus_of(group):
                give_cpus(group, cpus)

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Put a group and those below on these processors. Raises CgroupError.

        No group may have a processor that the one above it lacks, at any time. So first, outermost first, each keeps
        what it has and gets what it will have; then, innermost first, each loses what it will not have.
        """
        if "cpuset" not in self._mounts:
            raise CgroupError(f"{path}: no control groups with the controller cpuset are mounted")
        top = self._mounts["cpuset"] / path.lstrip("/")
        length = len(str(top)) + 1
        wanted = {top: cpus, **{each: inner.get(str(each)[length:].partition("/")[0], cpus) for each in below(top)}}
        has = {group: cpus_of(group) for group in wanted}
        for group, will in wanted.items():
            if not will <= has[group]:
                has[group] = has[group] | will
                give_cpus(group, has[group])
        for group, will in reversed(wanted.items()):
            if has[group] != will:
                give_cpus(group, will)

    def allowed(self, path: str) -> CPUSet:
        """As each process says."""
        return allowed_cpus(processes([self._mounts["cpuset"] / path.lstrip("/")]))

    def entrances(self, path: str) -> Sequence[Path]:
        """One in every tree that limits or measures."""
        return [mount / path.lstrip("/") / "cgroup.procs" for mount in self._made_in]

    def exists(self, path: str) -> bool:
        """Whether any tree has it."""
        return any(os.path.isdir(f"{mount}/{path.lstrip('/')}") for mount in self._all)

    def children(self, path: str) -> Sequence[str]:
        """Names of the groups right below, in any tree."""
        found: set[str] = set()
        for folder in self._folders(path):
            with suppress(OSError):
                found.update(entry.name for entry in os.scandir(folder) if entry.is_dir())
        return sorted(found)

    def kill(self, path: str) -> int:
        """Kill every process in the group and below."""
        found = processes(self._folders(path))
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return len(found)

    def remove(self, path: str) -> bool:
        """Remove the group and those below from every tree."""
        left = [folder for folder in self._folders(path) if not rmdir_tree(folder)]
        return not left

    def inhabitants(self, path: str) -> set[int]:
        """A group is in every tree, and has the same processes in each."""
        return processes([self._made_in[0] / path.lstrip("/")])

    def occupied(self, path: str) -> bool:
        """In the tree of blkio, where that is the question: a sandbox need not be in the same group in every tree."""
        return inhabited(self._mounts.get("blkio", self._made_in[0]) / path.lstrip("/"))

    def block_io(self) -> BlockIo | None:
        """The tree of the controller blkio."""
        return BlkioV1(self._mounts["blkio"]) if "blkio" in self._mounts else None

    def memory_used(self, path: str) -> int:
        """Usage less what has not been touched for a while."""
        usage = number(self._file("memory", path, "memory.usage_in_bytes"))
        return max(0, usage - field(self._file("memory", path, "memory.stat"), "total_inactive_file"))

    def memory_resident(self, path: str) -> int:
        """Anonymous memory, of the groups below too."""
        return field(self._file("memory", path, "memory.stat"), "total_rss")

    def cpu_used(self, path: str) -> float:
        """The kernel counts nanoseconds."""
        controller = "cpuacct" if "cpuacct" in self._mounts else "cpu"
        return number(self._file(controller, path, "cpuacct.usage")) / 1e9

    def oom_kills(self, path: str) -> int:
        """Of the group itself."""
        return field(self._file("memory", path, "memory.oom_control"), "oom_kill")

    def shares(self, path: str) -> int:
        """The weight of a group; 0 when there is none."""
        return number(self._file("cpu", path, "cpu.shares"))

    def _bring_down(self, path: str, quota: int, period: int) -> None:
        """No group may have more than the one above it: those below come down first, innermost first."""
        if quota == NONE:
            return
        for group in reversed(below(self._mounts["cpu"] / path.lstrip("/"))):
            most = quota * number(group / "cpu.cfs_period_us") // period
            if number(group / "cpu.cfs_quota_us") > most:
                attempt(group / "cpu.cfs_quota_us", str(most))

    def _file(self, controller: str, path: str, name: str) -> Path:
        return self._mounts[controller] / path.lstrip("/") / name

    def _folders(self, path: str) -> list[Path]:
        return [mount / path.lstrip("/") for mount in self._all]

    def _inherit(self, group: Path, file: str) -> str:
        """What a cpuset has; if that is nothing, it is given what the one above it has."""
        has = (group / file).read_text().strip()
        if not has and group != self._mounts["cpuset"]:
            has = self._inherit(group.parent, file)
            attempt(group / file, has)
        return has
