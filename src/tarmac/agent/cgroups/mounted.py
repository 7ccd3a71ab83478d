"""Detects the control groups of this host. A host with both versions has its controllers on v1; then v1 is used."""

from __future__ import annotations

from pathlib import Path

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.v1 import V1
from tarmac.agent.cgroups.v2 import V2


def mounted(mountinfo: Path = Path("/proc/self/mountinfo")) -> Hierarchy:
    """Return the hierarchy of this host. Raises CgroupError if none can hold limits."""
    by_controller: dict[str, Path] = {}
    unified: list[Path] = []
    for line in mountinfo.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(before.split(" ")[4])
        if kind == "cgroup2":
            unified.append(point)
        elif kind == "cgroup":
            for option in options.split(","):
                by_controller.setdefault(option, point)
    if "memory" in by_controller and "cpu" in by_controller:
        return V1({**by_controller, **{str(point): point for point in unified}})  # runtimes create groups in both
    for point in unified:
        if {"cpu", "memory"} <= set((point / "cgroup.controllers").read_text().split()):
            return V2(point)
    raise CgroupError("no control groups with the controllers cpu and memory are mounted")
