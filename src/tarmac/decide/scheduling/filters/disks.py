"""The node must reach the pod's disks. If that node is lost, the pod waits for it, because its data is there."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Disk, Pod
from tarmac.decide.scheduling.filters.rule import Brief, Check, Why
from tarmac.decide.scheduling.filters.taints import NOT_READY
from tarmac.decide.scheduling.nodeinfo import NodeInfo


def is_lost(disk: Disk, cluster: Cluster) -> bool:
    """Return True if every node that can reach the disk is deleted or not ready."""
    if disk.nodes.pinned is None:
        return False
    return not any(_is_ready(info) for name in disk.nodes.pinned for info in cluster.named(name))


def _is_ready(info: NodeInfo) -> bool:
    return not any(taint.key in NOT_READY for taint in info.node.taints)


class DiskFilter:
    """Node affinity of the volumes behind the pod's claims."""

    rule = "disks"

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Match each disk's nodes."""
        disks = pod.demand.disks
        if not disks:
            return None
        lost = any(is_lost(disk, cluster) for disk in disks)
        code = reasons.DISK_ON_LOST_NODE if lost else reasons.DISK_ELSEWHERE

        def check(info: NodeInfo) -> str | None:
            node = info.node
            return None if all(disk.nodes.matches(node.name, node.labels) for disk in disks) else code

        return check

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Name the disk's nodes, or report that they are lost."""
        disk = _elsewhere(pod, info)
        return Brief("disk on a lost node") if is_lost(disk, cluster) else Brief(f"disk on {_where(disk)}", 8.0)

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Name the disk and its nodes."""
        disk = _elsewhere(pod, info)
        where = _where(disk)
        if is_lost(disk, cluster):
            change = f"bring {where} back, or delete claim {disk.claim} to start with a new, empty disk"
            return Why(f"disk {disk.claim} is on {where}, which is lost", change)
        change = f"make room on {where}, or delete claim {disk.claim} to start with a new, empty disk"
        return Why(f"disk {disk.claim} is on {where}, not on {info.node.name}", change)


def _elsewhere(pod: Pod, info: NodeInfo) -> Disk:
    node = info.node
    return next(disk for disk in pod.demand.disks if not disk.nodes.matches(node.name, node.labels))


def _where(disk: Disk) -> str:
    return ", ".join(sorted(disk.nodes.pinned)) if disk.nodes.pinned else disk.nodes.text
