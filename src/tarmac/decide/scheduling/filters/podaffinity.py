"""The node must satisfy the pod's required (anti-)affinity, and the required anti-affinity of other pods to it."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.podterms import PodTerm

Counts = tuple[PodTerm, Mapping[str, int]]


def wanted(pod: Pod, cluster: Cluster) -> list[Counts]:
    """Return affinity terms with counts per domain. The first pod of a group that selects itself is exempt."""
    tallies = [cluster.census.tally(term) for term in pod.demand.near]
    alone = all(not any(tally.counts.values()) for tally in tallies)
    if alone and all(term.matches(pod.namespace, pod.labels) for term in pod.demand.near):
        return []
    return [(tally.term, tally.counts) for tally in tallies]


def avoided(pod: Pod, cluster: Cluster) -> list[Counts]:
    """Return anti-affinity terms with counts per domain: the pod's own, and other pods' terms that select it."""
    tallies = [cluster.census.tally(term) for term in pod.demand.apart]
    return [(tally.term, tally.counts) for tally in (*tallies, *cluster.census.avoiding(pod))]


class NearAndApart:
    """Required pod affinity and anti-affinity."""

    rule = "podaffinity"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Look up the node's domain in each count."""
        demand = pod.demand
        near = wanted(pod, cluster) if demand.near else []
        apart = avoided(pod, cluster)
        if not near and not apart and not demand.near:
            return None
        needed = {term.topology_key for term in demand.near}

        def check(info: NodeInfo) -> str | None:
            labels = info.node.labels
            if not needed <= labels.keys():
                return reasons.POD_AFFINITY_UNSATISFIED
            for term, counts in near:
                if not counts.get(labels[term.topology_key]):
                    return reasons.POD_AFFINITY_UNSATISFIED
            for term, counts in apart:
                domain = labels.get(term.topology_key)
                if domain is not None and counts.get(domain):
                    return reasons.POD_ANTI_AFFINITY_UNSATISFIED
            return None

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the term."""
        term, near = _violated(pod, info, cluster)
        return Brief(f"no pod matching {term.text} near" if near else f"a pod to be apart from{_own(pod, term)}", 3.0)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the term and the domain."""
        term, near = _violated(pod, info, cluster)
        key, name = term.topology_key, info.node.name
        domain = info.node.labels.get(key)
        if domain is None:
            return Why(f"node {name} has no label {key}", f"label {name} with {key}")
        if near:
            message = f"no pod matching {term.text} is in {key}={domain}"
            return Why(message, f"start a pod matching {term.text} in {key}={domain}")
        message = f"a pod that must be apart from this one is in {key}={domain}{_own(pod, term)}"
        return Why(message, f"add a node in another {key} with room for the pod")


def _own(pod: Pod, term: PodTerm) -> str:
    """Return the text of the pod's own term; empty for a term of other pods, which may be of other namespaces."""
    return f" ({term.text})" if term in pod.demand.apart else ""


def _violated(pod: Pod, info: NodeInfo, cluster: Cluster) -> tuple[PodTerm, bool]:
    """Return the first term that the node breaks, and True if it is of affinity."""
    labels = info.node.labels
    lacking = next((term for term in pod.demand.near if term.topology_key not in labels), None)
    if lacking is not None:
        return lacking, True
    for term, counts in wanted(pod, cluster) if pod.demand.near else ():
        if not counts.get(labels[term.topology_key]):
            return term, True
    for term, counts in avoided(pod, cluster):
        domain = labels.get(term.topology_key)
        if domain is not None and counts.get(domain):
            return term, False
    raise AssertionError(f"{info.node.name} satisfies every term")
