"""Pods that wait for a node: those to be looked at next, and those that nothing fitted.

Pods are looked at by priority, then in the order they came. One that nothing fits is set aside; it is looked at again
when something has changed that could matter to it, after a delay that doubles with every failure. Setting aside costs
nothing per pod while nothing changes, however many wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from tarmac.decide.scheduling import Pod

FIRST_DELAY = 1.0
LONGEST_DELAY = 10.0
LONGEST_WAIT = 300.0  # what is set aside is looked at this often even if nothing seems to have changed


class Waiter:
    """A pod that waits. `pod` is what was read of it at `read_at`, `claims` are its disks that have no node yet."""

    __slots__ = ("attempts", "claims", "due", "generation", "key", "pod", "priority", "read_at", "seen", "since", "uid")

    def __init__(self, key: str, uid: str, generation: int, priority: int) -> None:
        self.key = key
        self.uid = uid
        self.generation = generation
        self.priority = priority
        self.pod: Pod | None = None
        self.claims: tuple[str, ...] = ()
        self.read_at = 0
        self.attempts = 0
        self.seen = 0  # how things stood when nothing fitted
        self.since = 0.0
        self.due = 0.0

    @property
    def sensitive(self) -> bool:
        """Whether other pods can make a difference to it, not only room."""
        demand = self.pod.demand if self.pod is not None else None
        return demand is not None and bool(demand.near or demand.apart or demand.spread)


class Backlog:
    """Waiters by the uid of their pod. `version(sensitive)` is a number that changes with what could matter."""

    def __init__(self, version: Callable[[bool], int]) -> None:
        self._version = version
        self._waiters: dict[str, Waiter] = {}
        self._ready: list[tuple[int, int, str]] = []  # heap; entries that `_queued` does not confirm are void
        self._queued: dict[str, int] = {}
        self._aside: dict[str, Waiter] = {}
        self._order = 0

    def __len__(self) -> int:
        """Pods that can be looked at now."""
        return len(self._queued)

    @property
    def waiters(self) -> list[Waiter]:
        """All that wait at this moment, but for one that is being looked at."""
        return list(self._waiters.values())

    @property
    def aside(self) -> int:
        """Pods that nothing fitted."""
        return len(self._aside)

    def add(self, key: str, uid: str, generation: int, priority: int) -> None:
        """A pod waits. One that is known already is only looked at anew when it was changed."""
        known = self._waiters.get(uid)
        if known is None:
            known = self._waiters[uid] = Waiter(key, uid, generation, priority)
        elif known.generation == generation:
            return
        known.generation, known.priority, known.pod = generation, priority, None
        self._enqueue(known)

    def take(self) -> Waiter | None:
        """The next one to look at; it does wait, since `remove` is called as soon as a pod does not.

        It is no longer known here until it is set aside or put back.
        """
        while self._ready:
            _, order, uid = heapq.heappop(self._ready)
            if self._queued.get(uid) == order:
                del self._queued[uid]
                return self._waiters.pop(uid)
        return None

    def remove(self, uid: str) -> None:
        """A pod waits no longer."""
        if self._waiters.pop(uid, None) is not None:
            self._queued.pop(uid, None)
            self._aside.pop(uid, None)

    def put_back(self, waiter: Waiter, now: float) -> None:
        """It could not be bound: look at it again after a delay, whatever changes."""
        self._set_aside(waiter, now)
        waiter.seen = -1

    def set_aside(self, waiter: Waiter, now: float) -> None:
        """Nothing fits it as things stand."""
        self._set_aside(waiter, now)
        waiter.seen = self._version(waiter.sensitive)

    def wake(self, now: float) -> None:
        """Look again at those whose delay is over and for whom something has changed."""
        if not self._aside:
            return
        plain, sensitive = self._version(False), self._version(True)
        for waiter in list(self._changed(plain, sensitive, now)):
            self._enqueue(waiter)

    def _changed(self, plain: int, sensitive: int, now: float) -> Iterator[Waiter]:
        for waiter in self._aside.values():
            current = sensitive if waiter.sensitive else plain
            if waiter.due <= now and (waiter.seen != current or waiter.since + LONGEST_WAIT <= now):
                yield waiter

    def _set_aside(self, waiter: Waiter, now: float) -> None:
        waiter.attempts += 1
        waiter.since = now
        waiter.due = now + min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(waiter.attempts - 1, 10))
        self._waiters[waiter.uid] = self._aside[waiter.uid] = waiter

    def _enqueue(self, waiter: Waiter) -> None:
        self._aside.pop(waiter.uid, None)
        self._order += 1
        self._queued[waiter.uid] = self._order
        heapq.heappush(self._ready, (-waiter.priority, self._order, waiter.uid))
