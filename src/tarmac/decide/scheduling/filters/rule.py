"""The interface of filters: a fast check for all nodes, and texts for the few nodes that are explained."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo

Check = Callable[[NodeInfo], str | None]
"""Returns the reason why a node is refused, or None."""


class Why(NamedTuple):
    """The text of a refusal, and the smallest change that would lift it."""

    message: str
    change: str


class Brief(NamedTuple):
    """A short text to group equal refusals, and the cost of lifting the refusal, to compare nodes.

    The cost is the share by which a resource falls short, or a number above one for changes of other kinds.
    """

    words: str
    cost: float = 2.0


class Filter(Protocol):
    """A rule that a node must satisfy."""

    rule: str

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """Return the check for this pod, or None if the rule does not apply to it."""
        ...

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Return a short reason. Called only for a refused node."""
        ...

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Return the full reason. Called only for a refused node."""
        ...
