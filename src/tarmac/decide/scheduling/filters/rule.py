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
    """A refusal in words: in short (for counting alike), in full, and the smallest change that would lift it.

    `cost` compares changes: the share by which a resource falls short, or a number above one for other changes.
    """

    short: str
    message: str
    change: str
    cost: float = 2.0


class Filter(Protocol):
    """One rule."""

    rule: str

    def prepare(self, pod: Pod, cluster: Cluster) -> Check | None:
        """The check for this pod, or None if the rule has nothing to say about it."""
        ...

    def describe(self, pod: Pod, info: NodeInfo, cluster: Cluster) -> Why:
        """Why this node was refused. Asked only about a node that was."""
        ...
