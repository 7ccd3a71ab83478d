"""Access to pod cgroups for the virtual machine driver: to move a process into one, and to read usage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.runtimes.qemu.dependencies import CgroupUsage


class MachineGroups:
    """Implements `tarmac.runtimes.qemu.dependencies.Groups`."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy

    def entrances(self, path: str) -> Sequence[Path]:
        return self._hierarchy.entrances(path)

    def oom_kills(self, path: str) -> int:
        return self._hierarchy.oom_kills(path)

    def usage(self, path: str) -> CgroupUsage:
        kernel = self._hierarchy
        return CgroupUsage(kernel.cpu_used(path), kernel.memory_used(path), kernel.memory_resident(path))
