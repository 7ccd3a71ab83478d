"""The interface of scorers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo

Score = Callable[[NodeInfo], float]
"""Returns the score of a node; higher is better."""


class Scorer(Protocol):
    """A preference among nodes. A `picky` scorer widens the sample of nodes."""

    picky: bool

    def prepare(self, pod: Pod, cluster: Cluster) -> Score | None:
        """Return the score for this pod, or None if all nodes are equal."""
        ...
