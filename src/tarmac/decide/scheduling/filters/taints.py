"""The pod must tolerate every NoSchedule and NoExecute taint of the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod, PodToleration
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.nodeinfo import NodeInfo, Taint

KEEPS_OFF: Final = frozenset({"NoSchedule", "NoExecute"})
RELIEF: Final = {
    "node.kubernetes.io/disk-pressure": "free disk space on {node}: remove files, images or pods that are not needed",
    "node.kubernetes.io/memory-pressure": "free memory on {node}: scale down its pods",
    "node.kubernetes.io/pid-pressure": "end processes on {node}: scale down its pods",
    "node.kubernetes.io/network-unavailable": "bring the network of {node} up",
}
"""Remedies for taints of node conditions. The node removes these taints itself when the condition ends."""
NOT_READY: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def tolerates(tolerations: Iterable[PodToleration], taint: Taint) -> bool:
    """Return True if one of the tolerations covers the taint."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.exists or (toleration.key and toleration.value == taint.value):
            return True
    return False


class Taints:
    """Taints that the pod does not tolerate. The taint of a node that is not ready has its own reason."""

    rule = "taints"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Check for a taint that is not tolerated."""

        def check(info: NodeInfo) -> str | None:
            taints = _untolerated(pod, info) if info.node.taints else []
            if not taints:
                return None
            return reasons.NODE_NOT_READY if _only_not_ready(taints) else reasons.TAINT_NOT_TOLERATED

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the taints."""
        taints = _untolerated(pod, info)
        return (
            Brief("not ready", 3.0)
            if _only_not_ready(taints)
            else Brief(f"untolerated taint {', '.join(map(str, taints))}")
        )

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name all taints and the remedies."""
        name, taints = info.node.name, _untolerated(pod, info)
        if _only_not_ready(taints):
            return Why(f"node {name} is not ready", f"bring {name} back to ready")
        listed = ", ".join(map(str, taints))
        return Why(f"node {name} has taint {listed}", " and ".join(_changes(name, taints)))


def _changes(node: str, taints: list[Taint]) -> Iterator[str]:
    """Yield one change for all ordinary taints together, and one for each condition of the node."""
    others = ", ".join(str(taint) for taint in taints if taint.key not in RELIEF)
    if others:
        yield f"tolerate {others}, or remove it from {node}"
    for key in dict.fromkeys(taint.key for taint in taints if taint.key in RELIEF):
        yield RELIEF[key].format(node=node)


def _untolerated(pod: Pod, info: NodeInfo) -> list[Taint]:
    """Return the taints that keep the pod off the node."""
    tolerations = pod.demand.tolerations
    return [taint for taint in info.node.taints if taint.effect in KEEPS_OFF and not tolerates(tolerations, taint)]


def _only_not_ready(taints: list[Taint]) -> bool:
    return all(taint.key in NOT_READY for taint in taints)
