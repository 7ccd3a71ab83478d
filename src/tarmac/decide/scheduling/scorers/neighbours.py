"""Nodes near the pods that the pod would like to be near, and away from those it would rather not."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class PreferredPods:
    """Weights of the terms that have a pod in the node's domain; those of anti-affinity are negative."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Look up the node's domain in each count."""
        terms = pod.demand.preferred_pods
        if not terms:
            return None
        counts = [(cluster.census.tally(term).counts, term.topology_key, term.weight) for term in terms]
        most = sum(abs(term.weight) for term in terms)

        def score(info: NodeInfo) -> float:
            labels = info.node.labels
            return 200 * sum(weight for there, key, weight in counts if there.get(labels.get(key, ""))) / most

        return score
