"""Prefers nodes without pods of the same group, and domains with the fewest pods of a soft spread constraint."""

from __future__ import annotations

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.spread import tally_of
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score


class EvenSpread:
    """Penalty for each pod of the same group on the node, and for each one above the lowest count of a constraint."""

    picky = False

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a score from the counts; None if the pod has neither a group nor soft constraints."""
        group = pod.group
        soft = [tally_of(spread, pod, cluster) for spread in pod.demand.spread if not spread.hard]
        if not soft:
            return (lambda info: -20.0 * min(5, info.groups.get(group, 0))) if group else None
        counts = [(tally.counts, tally.term.topology_key, tally.least) for tally in soft]

        def score(info: NodeInfo) -> float:
            labels = info.node.labels
            total = -20.0 * min(5, info.groups.get(group, 0))
            for by_domain, key, least in counts:
                total -= 20.0 * min(5, by_domain.get(labels.get(key, ""), least + 5) - least)
            return total

        return score
