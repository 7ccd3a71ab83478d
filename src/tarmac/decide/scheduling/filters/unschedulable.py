"""A cordoned node takes no pods, unless they tolerate the unschedulable taint."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.filters.taints import tolerates
from tarmac.decide.scheduling.nodeinfo import CORDON, NodeInfo


class Unschedulable:
    """Nodes cordoned by `kubectl cordon`."""

    rule = "cordon"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Check `spec.unschedulable`."""
        if tolerates(pod.demand.tolerations, CORDON):
            return None
        return lambda info: reasons.NODE_UNSCHEDULABLE if info.node.unschedulable else None

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Report the cordon."""
        return Brief("cordoned", 1.5)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Suggest to uncordon."""
        return Why(f"node {info.node.name} is cordoned", f"uncordon {info.node.name}")
