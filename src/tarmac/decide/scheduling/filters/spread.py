"""The pod must not exceed the maximum skew of its topology spread constraints."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.census import PodTally
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.podterms import Spread


def tally_of(spread: Spread, pod: Pod, cluster: Cluster) -> PodTally:
    """Return the tally of a constraint's pods, over the nodes that the pod may use if affinity is honoured."""
    term = spread.term_for(pod.labels)
    if not spread.honours_affinity:
        return cluster.census.tally(term)
    return cluster.census.tally(term, pod.demand.nodes, pod.demand.location)


def limit_of(spread: Spread, tally: PodTally, pod: Pod) -> int:
    """Return the highest count of a domain that still admits this pod."""
    least = tally.least if len(tally.counts) >= spread.min_domains else 0
    itself = 1 if tally.term.matches(pod.namespace, pod.labels) else 0
    return least + spread.max_skew - itself


class TopologySpread:
    """Constraints with DoNotSchedule; ScheduleAnyway is left to the scorers."""

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

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the constraint."""
        spread, _ = _violated(pod, info, cluster)
        return Brief(f"too many over {spread.term.topology_key}", 2.5)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the constraint and the resulting skew."""
        spread, tally = _violated(pod, info, cluster)
        key, name = tally.term.topology_key, info.node.name
        domain = info.node.labels.get(key)
        if domain is None:
            return Why(f"node {name} has no label {key}", f"label {name} with {key}")
        skew = spread.max_skew + tally.counts.get(domain, 0) - limit_of(spread, tally, pod)
        message = f"one more pod in {key}={domain} would make a skew of {skew}, more than {spread.max_skew}"
        return Why(message, f"raise maxSkew for {key} to {skew}, or make room where there are fewest")


def _violated(pod: Pod, info: NodeInfo, cluster: Cluster) -> tuple[Spread, PodTally]:
    """Return the first constraint that the node would break."""
    for spread in pod.demand.spread:
        tally = tally_of(spread, pod, cluster)
        domain = info.node.labels.get(tally.term.topology_key)
        if spread.hard and (domain is None or tally.counts.get(domain, 0) > limit_of(spread, tally, pod)):
            return spread, tally
    raise AssertionError(f"{info.node.name} satisfies every constraint")
