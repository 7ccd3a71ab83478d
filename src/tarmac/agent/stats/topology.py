"""Which processors the machine has online, and how they are put together, as the kernel tells it below `root`.

What the kernel does not tell of a processor is taken to be plain: a core of its own, of socket 0 and of NUMA node 0. So
is everything about a machine without these files, whose processors are counted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tarmac.base.cpuset import CPUSet
from tarmac.decide.processors.topology import Place, Topology

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_UNKNOWN_SOCKET: Final = -1  # as virtual machines without sockets have it


def online(root: Path = Path("/")) -> CPUSet:
    """The processors that can run something."""
    found = _list(root / _CPUS / "online")
    return found or CPUSet(range(os.cpu_count() or 1))


def topology(root: Path = Path("/")) -> Topology:
    """The same, with what each is part of."""
    cpus, nodes = online(root), _nodes(root / _NODES)
    return Topology({cpu: _place(root / _CPUS / f"cpu{cpu}/topology", cpu, cpus, nodes) for cpu in cpus})


def _place(folder: Path, cpu: int, cpus: CPUSet, nodes: dict[int, int]) -> Place:
    siblings = _list(folder / "thread_siblings_list") & cpus
    try:
        socket = int((folder / "physical_package_id").read_text())
    except (OSError, ValueError):
        socket = 0
    return Place(nodes.get(cpu, 0), 0 if socket == _UNKNOWN_SOCKET else socket, min(siblings, default=cpu))


def _nodes(folder: Path) -> dict[int, int]:
    """The NUMA node of each processor."""
    found: dict[int, int] = {}
    for node in folder.glob("node[0-9]*"):
        found |= dict.fromkeys(_list(node / "cpulist"), int(node.name.removeprefix("node")))
    return found


def _list(file: Path) -> CPUSet:
    """A list of processors in a file; empty when it cannot be read."""
    try:
        return CPUSet.parse(file.read_text().strip())
    except (OSError, ValueError):
        return CPUSet()
