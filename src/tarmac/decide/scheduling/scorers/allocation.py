"""Prefers empty nodes, and nodes with balanced use of CPU and memory."""

from __future__ import annotations

from tarmac.decide.amounts import CPU, MEMORY
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class LeastAllocated:
    """The free share after placement, averaged over CPU and memory, minus a penalty for the difference of the two."""

    picky = False

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score from the free shares after placement."""
        requested_cpu, requested_memory = pod.demand.compared_cpu, pod.demand.compared_memory

        def score(info: NodeInfo) -> float:
            there, free = info.node.allocatable, info.free
            cpu = (free[CPU] - requested_cpu) / (there.get(CPU) or 1)
            memory = (free[MEMORY] - requested_memory) / (there.get(MEMORY) or 1)
            return 50 * (cpu + memory) - 25 * abs(cpu - memory)

        return score
