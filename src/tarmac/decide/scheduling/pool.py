"""Pools of equivalent nodes, which differ only in their pods, in buckets by free capacity.

All nodes of a pool have the same Location, taints, runtimes and values of the labels that pods select by. A filter on
those runs once per pool, not once per node. Inside a pool, nodes are in buckets by level, so the emptiest nodes are
tried first and nodes that are certainly too full are skipped: the cost of finding a node is the same in a pool of a
hundred nodes and of thousands, empty or nearly full.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.decide.scheduling.nodeinfo import NodeInfo


class NodePool:
    """A pool of equivalent nodes. `order` lists the levels that have nodes, emptiest first."""

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
        """Any node of the pool, for properties that all of them share."""
        return self.buckets[self.order[0]][0]

    def add(self, info: NodeInfo) -> None:
        """Add a node."""
        self.size += 1
        info.pool = self
        self._put(info)

    def remove(self, info: NodeInfo) -> None:
        """Remove a node."""
        self.size -= 1
        info.pool = None
        self._take(info)

    def refresh(self, info: NodeInfo) -> None:
        """Move a node to the bucket of its current level, after its pods have changed."""
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
        """Remove a node from its bucket in O(1): the bucket's last node moves into the gap."""
        bucket = self.buckets[info.level]
        last = bucket.pop()
        if last is not info:
            bucket[info.slot] = last
            last.slot = info.slot
        if not bucket:
            del self.buckets[info.level]
            self.order = sorted(self.buckets, reverse=True)
