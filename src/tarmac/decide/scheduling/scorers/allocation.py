"""Empty nodes first, and those on which processors and memory run out together."""

from __future__ import annotations

from tarmac.decide.scheduling.amounts import CPU, MEMORY
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class LeastAllocated:
    """Share that stays free, averaged over processors and memory, less half of the difference between the two."""

    picky = False

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Divide what would be left by what there is."""
        asked_cpu, asked_memory = pod.demand.compared_cpu, pod.demand.compared_memory

        def score(info: NodeInfo) -> float:
            there, free = info.node.allocatable, info.free
            cpu = (free[CPU] - asked_cpu) / (there.get(CPU) or 1)
            memory = (free[MEMORY] - asked_memory) / (there.get(MEMORY) or 1)
            return 50 * (cpu + memory) - 25 * abs(cpu - memory)

        return score
