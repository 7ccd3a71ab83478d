"""What a scorer is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo

Score = Callable[[NodeInfo], float]
"""How good a node is; more is better."""


class Scorer(Protocol):
    """One preference. `picky` ones are worth looking at more nodes for."""

    picky: bool

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """The score for this pod, or None if every node is as good as any other."""
        ...
