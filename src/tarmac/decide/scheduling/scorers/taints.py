"""Nodes that would rather not have the pod come last: taints of effect PreferNoSchedule."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.taints import tolerates
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class FewTaints:
    """Each such taint that the pod does not tolerate costs more than an empty node is worth."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Count them, if there are any."""
        if not any(
            taint.effect == "PreferNoSchedule" for pool in cluster.pools.values() for taint in pool.example.node.taints
        ):
            return None
        tolerations = pod.demand.tolerations

        def score(info: NodeInfo) -> float:
            taints = [taint for taint in info.node.taints if taint.effect == "PreferNoSchedule"]
            return -150.0 * sum(not tolerates(tolerations, taint) for taint in taints)

        return score
