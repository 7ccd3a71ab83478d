"""Avoids nodes with PreferNoSchedule taints."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.taints import tolerates
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class FewTaints:
    """Penalty for each such taint that the pod does not tolerate; it exceeds the bonus of an empty node."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score that counts the taints; None if no node has any."""
        if not any(
            taint.effect == "PreferNoSchedule" for pool in cluster.pools.values() for taint in pool.example.node.taints
        ):
            return None
        tolerations = pod.demand.tolerations

        def score(info: NodeInfo) -> float:
            taints = [taint for taint in info.node.taints if taint.effect == "PreferNoSchedule"]
            return -150.0 * sum(not tolerates(tolerations, taint) for taint in taints)

        return score
