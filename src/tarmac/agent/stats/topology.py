"""Online CPUs of the host and their topology, read from sysfs below `root`.

Missing values have defaults: each CPU is its own core, in socket 0 and NUMA node 0. On a host without these files the
CPUs are counted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import CpuPosition, Topology

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_UNKNOWN_SOCKET: Final = -1  # reported by virtual machines without sockets


def online(root: Path = Path("/")) -> CPUSet:
    """Return the online CPUs."""
    found = _list(root / _CPUS / "online")
    return found or CPUSet(range(os.cpu_count() or 1))


def topology(root: Path = Path("/")) -> Topology:
    """Return the online CPUs with their core, socket and NUMA node."""
    cpus, nodes = online(root), _nodes(root / _NODES)
    return Topology({cpu: _place(root / _CPUS / f"cpu{cpu}/topology", cpu, cpus, nodes) for cpu in cpus})


def _place(folder: Path, cpu: int, cpus: CPUSet, nodes: dict[int, int]) -> CpuPosition:
    siblings = _list(folder / "thread_siblings_list") & cpus
    try:
        socket = int((folder / "physical_package_id").read_text())
    except (OSError, ValueError):
        socket = 0
    return CpuPosition(nodes.get(cpu, 0), 0 if socket == _UNKNOWN_SOCKET else socket, min(siblings, default=cpu))


def _nodes(folder: Path) -> dict[int, int]:
    """Return the NUMA node of each CPU."""
    found: dict[int, int] = {}
    for node in folder.glob("node[0-9]*"):
        found |= dict.fromkeys(_list(node / "cpulist"), int(node.name.removeprefix("node")))
    return found


def _list(file: Path) -> CPUSet:
    """Read a CPU list from a file; empty if it cannot be read."""
    try:
        return CPUSet.parse(file.read_text().strip())
    except (OSError, ValueError):
        return CPUSet()
