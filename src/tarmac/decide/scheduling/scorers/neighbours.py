"""Prefers nodes by the pod's preferred pod affinity and anti-affinity."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class PreferredPods:
    """The sum of weights of terms with a pod in the node's domain; weights of anti-affinity are negative."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score that looks up the node's domain in each tally."""
        terms = pod.demand.preferred_pods
        if not terms:
            return None
        counts = [(cluster.census.tally(term).counts, term.topology_key, term.weight) for term in terms]
        most = sum(abs(term.weight) for term in terms)

        def score(info: NodeInfo) -> float:
            labels = info.node.labels
            return 200 * sum(weight for there, key, weight in counts if there.get(labels.get(key, ""))) / most

        return score
