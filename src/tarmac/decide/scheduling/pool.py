"""Nodes that no filter can tell apart except by what is on them, kept by how empty they are.

All nodes of a pool have the same Location, taints, runtimes and values of the labels that pods ask for. A filter about
those is asked once per pool, not once per node. Inside a pool, nodes lie in buckets by level, so a pod is offered the
emptiest nodes first and never sees those that are certainly too full: finding room costs the same in a pool of a
hundred nodes and of thousands, empty or nearly full.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.decide.scheduling.nodeinfo import NodeInfo


class Pool:
    """A bag of like nodes. `order` lists the levels that have nodes, emptiest first."""

    __slots__ = ("buckets", "key", "order", "size")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.buckets: dict[int, list[NodeInfo]] = {}
        self.order: list[int] = []
        self.size = 0

    def __iter__(self) -> Iterator[NodeInfo]:
        for level in self.order:
            yield from self.buckets[level]

    @property
    def example(self) -> NodeInfo:
        """Any of the nodes; for what a pool's nodes have in common one is as good as another."""
        return self.buckets[self.order[0]][0]

    def add(self, info: NodeInfo) -> None:
        """Take a node in."""
        self.size += 1
        info.pool = self
        self._put(info)

    def remove(self, info: NodeInfo) -> None:
        """Let a node go."""
        self.size -= 1
        info.pool = None
        self._take(info)

    def refresh(self, info: NodeInfo) -> None:
        """What is on the node has changed: move it if that changes its level."""
        if info.current_level() != info.level:
            self._take(info)
            self._put(info)

    def _put(self, info: NodeInfo) -> None:
        info.level = info.current_level()
        bucket = self.buckets.get(info.level)
        if bucket is None:
            bucket = self.buckets[info.level] = []
            self.order = sorted(self.buckets, reverse=True)
        info.slot = len(bucket)
        bucket.append(info)

    def _take(self, info: NodeInfo) -> None:
        """The last node of the bucket moves into the gap."""
        bucket = self.buckets[info.level]
        last = bucket.pop()
        if last is not info:
            bucket[info.slot] = last
            last.slot = info.slot
        if not bucket:
            del self.buckets[info.level]
            self.order = sorted(self.buckets, reverse=True)
