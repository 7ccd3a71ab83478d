"""Control groups v1: each controller has its own tree, and a group is a directory in each of them.

Four traps: controllers may or may not share a mount (here cpu and cpuacct do not); a new cpuset is empty and accepts no
process until CPUs and memory nodes are copied from its parent; a quota below that of a child group is refused; and a
group has to be removed from every tree, also from those (devices, freezer, systemd's) that only the runtime writes to.
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
from tarmac.agent.model.cgrouplimits import NONE, CgroupLimits
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
        """Create the group in every tree that limits or measures; return True if it is new in all of them."""
        new = [make_folder(mount / path.lstrip("/")) for mount in self._made_in]
        if "cpuset" in self._mounts:
            for file in _CPUSET_FILES:
                self._inherit(self._mounts["cpuset"] / path.lstrip("/"), file)
        # Not new if one tree has it already: there it may have the limits of an earlier agent.
        return all(new)

    def limit(self, path: str, limits: CgroupLimits) -> None:
        """Set limits on a group. Raises CgroupError."""
        if limits.shares is not None:
            attempt(self._file("cpu", path, "cpu.shares"), str(limits.shares))
        if limits.quota is not None:
            self._bring_down(path, limits.quota, limits.period)
            attempt(self._file("cpu", path, "cpu.cfs_period_us"), str(limits.period))
            attempt(self._file("cpu", path, "cpu.cfs_quota_us"), str(limits.quota))
        if limits.memory is not None:
            # The kernel answers EBUSY if it cannot reclaim the group's memory down to the new limit.
            attempt(self._file("memory", path, "memory.limit_in_bytes"), str(limits.memory))
        if limits.pids is not None and "pids" in self._mounts:
            attempt(self._file("pids", path, "pids.max"), "max" if limits.pids == NONE else str(limits.pids))
        if limits.huge_pages is not None and "hugetlb" in self._mounts:
            for size, most in limits.huge_pages.items():
                attempt(self._file("hugetlb", path, f"hugetlb.{page_size(size)}.limit_in_bytes"), str(most))

    def widen(self, path: str) -> None:
        """Give a group all CPUs of its parent: CPUs that came online later are not added automatically."""
        if "cpuset" in self._mounts:
            group = self._mounts["cpuset"] / path.lstrip("/")
            if (cpus := cpus_of(group.parent)) != cpus_of(group):
                give_cpus(group, cpus)

    def pin(self, path: str, cpus: CPUSet, inner: Mapping[str, CPUSet]) -> None:
        """Restrict a group and its child groups to these CPUs. Raises CgroupError.

        A group must never have a CPU that its parent lacks. So in a first pass, parents first, each group gets the
        union of its old and new CPUs; in a second, children first, each loses the CPUs it will not have.
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
        """Return the union of all processes' allowed CPUs."""
        return allowed_cpus(processes([self._mounts["cpuset"] / path.lstrip("/")]))

    def entrances(self, path: str) -> Sequence[Path]:
        """Return one file in every tree that limits or measures."""
        return [mount / path.lstrip("/") / "cgroup.procs" for mount in self._made_in]

    def exists(self, path: str) -> bool:
        """Return True if any tree has the group."""
        return any(os.path.isdir(f"{mount}/{path.lstrip('/')}") for mount in self._all)

    def children(self, path: str) -> Sequence[str]:
        """Return the names of direct child groups in any tree."""
        found: set[str] = set()
        for folder in self._folders(path):
            with suppress(OSError):
                found.update(entry.name for entry in os.scandir(folder) if entry.is_dir())
        return sorted(found)

    def kill(self, path: str) -> int:
        """Kill all processes in the group and its child groups."""
        # Not atomic: a process may fork between the list and its kill. The caller repeats until the group can be
        # removed.
        found = processes(self._folders(path))
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return len(found)

    def remove(self, path: str) -> bool:
        """Remove the group and its child groups from every tree."""
        # A list: every tree is tried, even if a group of the first is still in use.
        left = [folder for folder in self._folders(path) if not rmdir_tree(folder)]
        return not left

    def inhabitants(self, path: str) -> set[int]:
        """Return the processes of the first tree: every tree has the same."""
        return processes([self._made_in[0] / path.lstrip("/")])

    def occupied(self, path: str) -> bool:
        """Look in the tree of blkio, the one that matters: a sandbox may be in different groups in different trees."""
        return inhabited(self._mounts.get("blkio", self._made_in[0]) / path.lstrip("/"))

    def block_io(self) -> BlockIo | None:
        """Return the limits of the controller blkio."""
        return BlkioV1(self._mounts["blkio"]) if "blkio" in self._mounts else None

    def memory_used(self, path: str) -> int:
        """Return the usage without inactive file pages."""
        usage = number(self._file("memory", path, "memory.usage_in_bytes"))
        # kubelet's working set: pages of inactive files can be reclaimed at once.
        return max(0, usage - field(self._file("memory", path, "memory.stat"), "total_inactive_file"))

    def memory_resident(self, path: str) -> int:
        """Return the anonymous memory, including child groups."""
        return field(self._file("memory", path, "memory.stat"), "total_rss")

    def cpu_used(self, path: str) -> float:
        """Convert the kernel's nanoseconds."""
        controller = "cpuacct" if "cpuacct" in self._mounts else "cpu"
        return number(self._file(controller, path, "cpuacct.usage")) / 1e9

    def oom_kills(self, path: str) -> int:
        """Return the kills of the group itself."""
        return field(self._file("memory", path, "memory.oom_control"), "oom_kill")

    def shares(self, path: str) -> int:
        """Return the weight of a group; 0 without one."""
        return number(self._file("cpu", path, "cpu.shares"))

    def _bring_down(self, path: str, quota: int, period: int) -> None:
        """Lower the quotas of child groups first, innermost first: none may exceed its parent's."""
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
        """Return the content of a cpuset file; copy it from the parent if it is empty."""
        has = (group / file).read_text().strip()
        if not has and group != self._mounts["cpuset"]:
            has = self._inherit(group.parent, file)
            attempt(group / file, has)
        return has
