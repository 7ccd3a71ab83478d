"""The pod must tolerate every taint of the node that keeps pods off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod, Toleration
from tarmac.decide.scheduling.filters.rule import Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo, Taint

KEEPS_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations covers the taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.exists or (toleration.key and toleration.value == taint.value):
            return True
    return False


def untolerated(pod: Pod, info: NodeInfo) -> Taint | None:
    """The first taint that keeps the pod off the node."""
    for taint in info.node.taints:
        if taint.effect in KEEPS_OFF and not tolerates(pod.demand.tolerations, taint):
            return taint
    return None


class Taints:
    """A node that is not ready has a taint for that; it gets a reason of its own."""

    rule = "taints"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Look for a taint that is not tolerated."""

        def check(info: NodeInfo) -> str | None:
            taint = untolerated(pod, info) if info.node.taints else None
            if taint is None:
                return None
            return reasons.NODE_NOT_READY if taint.key in NOT_READY else reasons.TAINT_NOT_TOLERATED

        return check

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Which taints."""
        name = info.node.name
        taints = [t for t in info.node.taints if t.effect in KEEPS_OFF and not tolerates(pod.demand.tolerations, t)]
        if all(taint.key in NOT_READY for taint in taints):
            return Why("not ready", f"{name} is not ready", f"bring {name} back to ready", 3.0)
        listed = ", ".join(map(str, taints))
        change = f"tolerate {listed}, or remove it from {name}"
        return Why(f"untolerated taint {listed}", f"{name} has taint {listed}", change)
