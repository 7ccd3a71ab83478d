"""Keeps nodes with GPUs for pods that need them, and packs those pods."""

from __future__ import annotations

from typing import Final

from tarmac.api.kubernetes.runtimeclasses import PROXIED_PREFIX
from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo
from tarmac.decide.scheduling.scorers.score import Score

AVOID: Final = -15.0
"""Score of a node with GPUs for a pod without: less than a third of the difference of a full and an empty node."""
PACK: Final = 120.0
"""Score of a node whose GPUs are all in use, more than the difference of a full and an empty node."""


class GpuAvoidance:
    """Pods without GPUs prefer nodes without, so that pods with GPUs find CPU and memory beside them."""

    picky = False

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return a constant penalty for nodes with GPUs."""
        if _gpus(pod):
            return None

        def score(info: NodeInfo) -> float:
            return AVOID if any(name.startswith(PROXIED_PREFIX) for name in info.node.allocatable) else 0.0

        return score


class GpuPacking:
    """Pods with GPUs prefer nodes with few free ones, so that a pod that needs many at once finds them."""

    picky = True

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return the share of the requested GPUs that is in use."""
        requested = _gpus(pod)
        if not requested:
            return None

        def score(info: NodeInfo) -> float:
            there, free = info.node.allocatable, info.free
            used = [1 - free.get(name, 0) / there[name] for name in requested if there.get(name)]
            return PACK * sum(used) / len(requested)

        return score


def _gpus(pod: Pod) -> list[str]:
    return [name for name, amount in pod.demand.requests if amount and name.startswith(PROXIED_PREFIX)]
