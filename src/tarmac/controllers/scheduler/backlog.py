"""Queue of pods that wait for a node: the pods to schedule next, and the unschedulable ones.

Pods are scheduled by priority, then in order of arrival. A pod that fits no node is set aside. It is retried when a
relevant change has happened, after a delay that doubles with every failure. While nothing changes, pods set aside cost
nothing each, however many there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from tarmac.decide.scheduling import Pod

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 10.0
RETRY_INTERVAL = 300.0  # of unschedulable pods when no relevant change was observed


class Waiter:
    """A waiting pod. `pod` was decoded at version `read_at`; `claims` are its volume claims without a node."""

    __slots__ = (
        "attempts",
        "claims",
        "due",
        "generation",
        "key",
        "pod",
        "priority",
        "read_at",
        "seen_version",
        "since",
        "uid",
    )

    def __init__(self, key: str, uid: str, generation: int, priority: int) -> None:
        self.key = key
        self.uid = uid
        self.generation = generation
        self.priority = priority
        self.pod: Pod | None = None
        self.claims: tuple[str, ...] = ()
        self.read_at = 0
        self.attempts = 0
        self.seen_version = 0  # cluster version at which no node fitted
        self.since = 0.0
        self.due = 0.0

    @property
    def sensitive(self) -> bool:
        """True if other pods can affect where it fits, and not only free resources."""
        demand = self.pod.demand if self.pod is not None else None
        return demand is not None and bool(demand.near or demand.apart or demand.spread)


class Backlog:
    """Waiting pods by uid. `version(sensitive)` returns a number that changes with every relevant change."""

    def __init__(self, version: Callable[[bool], int]) -> None:
        self._version = version
        self._waiters: dict[str, Waiter] = {}
        self._ready: list[tuple[int, int, str]] = []  # heap; entries that `_queued` does not confirm are stale
        self._queued: dict[str, int] = {}
        self._aside: dict[str, Waiter] = {}
        self._order = 0

    def __len__(self) -> int:
        """Return the number of pods that can be scheduled now."""
        return len(self._queued)

    @property
    def waiters(self) -> list[Waiter]:
        """All waiting pods, except one that was taken for a decision."""
        return list(self._waiters.values())

    @property
    def aside(self) -> int:
        """Number of unschedulable pods."""
        return len(self._aside)

    def add(self, key: str, uid: str, generation: int, priority: int) -> None:
        """Add a waiting pod. A known pod is queued again only when its generation has changed."""
        known = self._waiters.get(uid)
        if known is None:
            known = self._waiters[uid] = Waiter(key, uid, generation, priority)
        elif known.generation == generation:
            return
        known.generation, known.priority, known.pod = generation, priority, None
        self._enqueue(known)

    def take(self) -> Waiter | None:
        """Return the next pod to schedule, or None. `remove` keeps the queue free of pods that no longer wait.

        The pod is not in the backlog until it is set aside or put back.
        """
        while self._ready:
            _, order, uid = heapq.heappop(self._ready)
            # Other entries are stale: the pod was removed, or queued again since.
            if self._queued.get(uid) == order:
                del self._queued[uid]
                return self._waiters.pop(uid)
        return None

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits."""
        if self._waiters.pop(uid, None) is not None:
            self._queued.pop(uid, None)
            self._aside.pop(uid, None)

    def put_back(self, waiter: Waiter, now: float) -> None:
        """Retry after a delay, regardless of changes: binding the pod failed."""
        self._set_aside(waiter, now)
        waiter.seen_version = -1

    def set_aside(self, waiter: Waiter, now: float) -> None:
        """Retry after a relevant change: no node fits the pod at this version."""
        self._set_aside(waiter, now)
        waiter.seen_version = self._version(waiter.sensitive)

    def wake(self, now: float) -> None:
        """Queue the pods whose delay is over and that a change concerns."""
        if not self._aside:
            return
        plain, sensitive = self._version(False), self._version(True)
        for waiter in list(self._changed(plain, sensitive, now)):
            self._enqueue(waiter)

    def _changed(self, plain: int, sensitive: int, now: float) -> Iterator[Waiter]:
        for waiter in self._aside.values():
            current = sensitive if waiter.sensitive else plain
            if waiter.due <= now and (waiter.seen_version != current or waiter.since + RETRY_INTERVAL <= now):
                yield waiter

    def _set_aside(self, waiter: Waiter, now: float) -> None:
        waiter.attempts += 1
        waiter.since = now
        waiter.due = now + min(MAX_BACKOFF, INITIAL_BACKOFF * 2.0 ** min(waiter.attempts - 1, 10))
        self._waiters[waiter.uid] = self._aside[waiter.uid] = waiter

    def _enqueue(self, waiter: Waiter) -> None:
        self._aside.pop(waiter.uid, None)
        self._order += 1
        self._queued[waiter.uid] = self._order
        heapq.heappush(self._ready, (-waiter.priority, self._order, waiter.uid))
