"""What a filter is: a quick check for the many nodes, and words for the few that matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tarmac.decide.scheduling.cluster import Cluster
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.nodeinfo import NodeInfo

Check = Callable[[NodeInfo], str | None]
"""The reason why a node is refused, or None."""


class Why(NamedTuple):
    """A refusal in words, and the smallest change that would lift it."""

    message: str
    change: str


class Brief(NamedTuple):
    """A refusal in few words, to count alike, and what lifting it would cost, to compare nodes.

    The cost is the share by which a resource falls short, or a number above one for changes of other kinds.
    """

    words: str
    cost: float = 2.0


class Filter(Protocol):
    """One rule."""

    rule: str

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """The check for this pod, or None if the rule has nothing to say about it."""
        ...

    def brief(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Brief:
        """Why this node was refused, quickly. Asked only about a node that was."""
        ...

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Why this node was refused. Asked only about a node that was."""
        ...
