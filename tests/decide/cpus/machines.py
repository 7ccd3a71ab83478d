"""CPU topologies of test machines."""

from __future__ import annotations

from tarmac.decide.cpus.topology import CpuPosition, Topology


def siblings() -> Topology:
    """Return 16 processors: 2 sockets, each a NUMA node, of 4 cores with the siblings c and c+8."""
    return Topology({cpu: CpuPosition(cpu % 8 // 4, cpu % 8 // 4, cpu % 8) for cpu in range(16)})


def sub_numa() -> Topology:
    """Return 16 processors without siblings: 2 sockets of 2 NUMA nodes of 4."""
    return Topology({cpu: CpuPosition(cpu // 4, cpu // 8, cpu) for cpu in range(16)})
