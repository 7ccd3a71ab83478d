"""The node must match the pod's node selector and required node affinity."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo


class NodeLabels:
    """Runs once per pool if the pool's nodes agree on the labels, else once per node."""

    rule = "labels"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Match labels and name."""
        chosen = pod.demand.nodes
        if chosen is None:
            return None
        matches = chosen.matches
        return lambda info: None if matches(info.node.name, info.node.labels) else reasons.NODE_AFFINITY_MISMATCH

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the selector."""
        return Brief(f"no match for {_wanted(pod)}")

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the selector."""
        wanted = _wanted(pod)
        message = f"node {info.node.name} does not match {wanted}"
        return Why(message, f"label {info.node.name} so that it matches {wanted}")


def _wanted(pod: Pod) -> str:
    return pod.demand.nodes.text if pod.demand.nodes else ""
