"""Prefers nodes that match the pod's preferred node affinity."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class PreferredNodes:
    """The node's share of the weights, with twice the weight of free capacity."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score that adds up the weights."""
        preferred = pod.demand.preferred_nodes
        if not preferred:
            return None
        most = sum(weight for weight, _ in preferred)

        def score(info: NodeInfo) -> float:
            node = info.node
            return 200 * sum(weight for weight, nodes in preferred if nodes.matches(node.name, node.labels)) / most

        return score
