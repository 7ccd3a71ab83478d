"""The pod must not make the spread of its kind over domains more uneven than it allows."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.census import Tally
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.podterms import Spread


def tally_of(spread: Spread, pod: Pod, cluster: Cluster) -> Tally:
    """Pods that count for a constraint, over the nodes that the pod may use at all."""
    term = spread.term_for(pod.labels)
    if not spread.honours_affinity:
        return cluster.census.tally(term)
    return cluster.census.tally(term, pod.demand.nodes, pod.demand.location)


def limit_of(spread: Spread, tally: Tally, pod: Pod) -> int:
    """How many of the pods a domain may hold before this one comes."""
    least = tally.least if len(tally.counts) >= spread.min_domains else 0
    itself = 1 if tally.term.matches(pod.namespace, pod.labels) else 0
    return least + spread.max_skew - itself


class TopologySpread:
    """Constraints that say DoNotSchedule; the others are a matter of score."""

    rule = "spread"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Compare the domain's count with the limit, for each constraint."""
        tallies = [(spread, tally_of(spread, pod, cluster)) for spread in pod.demand.spread if spread.hard]
        if not tallies:
            return None
        limits = [(tally.counts, tally.term.topology_key, limit_of(spread, tally, pod)) for spread, tally in tallies]

        def check(info: NodeInfo) -> str | None:
            for counts, key, limit in limits:
                domain = info.node.labels.get(key)
                if domain is None or counts.get(domain, 0) > limit:
                    return reasons.TOPOLOGY_SPREAD_UNSATISFIED
            return None

        return check

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Which constraint, and by how much."""
        for spread in pod.demand.spread:
            tally = tally_of(spread, pod, cluster)
            key, limit = tally.term.topology_key, limit_of(spread, tally, pod)
            domain = info.node.labels.get(key)
            if not spread.hard or (domain is not None and tally.counts.get(domain, 0) <= limit):
                continue
            if domain is None:
                return Why(
                    f"no label {key}", f"{info.node.name} has no label {key}", f"label {info.node.name} with {key}"
                )
            skew = spread.max_skew + tally.counts[domain] - limit
            message = f"one more pod in {key}={domain} would make a skew of {skew}, more than {spread.max_skew}"
            change = f"raise maxSkew for {key} to {skew}, or add room where there are fewest"
            return Why(f"skew over {key} too large", message, change, 2.5)
        raise AssertionError(f"{info.node.name} satisfies every constraint")
