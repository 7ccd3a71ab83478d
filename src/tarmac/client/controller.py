"""The work loop of every controller: keys in, reconciles out.

A reconciler takes a key, reads caches, acts, and returns; it may be called again at any time and keeps no state between
calls. Its result decides the next step, by type:

    None                  done; called again on the next change
    RetryAfter(seconds)   done for now; called again after the delay
    raises TerminalError  cannot succeed without a change of the object: logged, not retried
    raises Conflict       lost a race: retried with back-off, without a log line; so is a refusal by a namespace that is
                          terminating, until the cache shows it
    raises anything       logged and retried with back-off, so a bug in one object never stops the other objects

Only the workers and the queue's timer live in its task group: cancelling `run` cancels the reconciles in progress.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tarmac.api.status import NAMESPACE_TERMINATING, Conflict, Forbidden, NotFound
from tarmac.base.clock import Clock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.base.randomness import Randomness
from tarmac.client.cache import Item
from tarmac.client.errors import NotLeader
from tarmac.client.informer import Informer
from tarmac.client.turns import loop_budget
from tarmac.client.workqueue import ShutDown, WorkQueue

_log = log("controller")


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Reconcile again after a delay, though nothing failed."""

    seconds: float


class TerminalError(Exception):
    """Retrying cannot help; only a change of the object or of its dependencies can."""


Reconcile = Callable[[str], Awaitable[RetryAfter | None]]
KeysOf = Callable[[Item[Any]], "list[str] | tuple[str, ...]"]


def own_key(item: Item[Any]) -> tuple[str, ...]:
    """Return the changed object's own key."""
    return (item.key,)


def controller_key(kind: str) -> KeysOf:
    """Return a function for the key of the object of this kind that controls the changed one."""

    def keys(item: Item[Any]) -> tuple[str, ...]:
        owner = item.metadata.controller
        if owner is None or owner.kind != kind:
            return ()
        namespace = item.metadata.namespace
        return (f"{namespace}/{owner.name}" if namespace else owner.name,)

    return keys


def _lost_a_race(error: Exception) -> bool:
    """True if the object changed before the cache showed it; the cache will catch up."""
    if isinstance(error, Forbidden):
        return error.has_cause(NAMESPACE_TERMINATING)
    return isinstance(error, (Conflict, NotFound))


class Controller:
    """One reconciler, its queue and its workers."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        clock: Clock,
        randomness: Randomness,
        workers: int = 4,
    ) -> None:
        self.name = name
        self.queue = WorkQueue(name, clock, randomness)
        self.results: Counter[str] = Counter()  # success, retry_after, error, terminal
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._awaited: list[Informer[Any]] = []

    def watches(self, informer: Informer[Any], keys_of: KeysOf = own_key, *, after: float = 0.0) -> None:
        """Queue the keys that `keys_of` returns, for the old and the new state of each changed object.

        With `after`, changes are debounced by that many seconds, so that a burst is reconciled once.
        """

        def changed(old: Item[Any] | None, new: Item[Any] | None) -> None:
            for item in (old, new):
                if item is not None:
                    for key in keys_of(item):
                        self.queue.add_after(key, after)

        self.awaits(informer)
        informer.on_change(changed)

    def awaits(self, informer: Informer[Any]) -> None:
        """Reconcile nothing before this cache is complete, without being called for its changes."""
        self._awaited.append(informer)

    async def run(self) -> None:
        """Work until cancelled. Nothing is reconciled before every watched cache is complete."""
        for informer in self._awaited:
            await informer.synced()
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(self.queue.run())
            workers = [group.create_task(self._work()) for _ in range(self._workers)]
            await asyncio.wait(workers)
            timer.cancel()

    def stop(self) -> None:
        """Finish the ready keys, then let `run` return."""
        self.queue.shut_down()

    async def _work(self) -> None:
        turn = loop_budget(self._clock)
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            try:
                await turn.wait()
                await self._once(key)
            finally:
                self.queue.done(key)

    async def _once(self, key: str) -> None:
        try:
            result = await self._reconcile(key)
        except TerminalError as error:
            self._finish(key, "terminal")
            _log.warning("reconcile failed terminally", controller=self.name, key=key, error=str(error))
        except NotLeader:
            raise
        except Exception as error:
            end_if_out_of_memory(error)
            self.results["error"] += 1
            self.queue.add_rate_limited(key)
            if _lost_a_race(error):
                _log.debug("lost a race", controller=self.name, key=key, error=str(error))
                return
            where = traceback.format_exc(limit=-3)
            _log.error("reconcile failed", controller=self.name, key=key, error=repr(error), where=where)
        else:
            self._finish(key, "success" if result is None else "retry_after")
            if result is not None:
                self.queue.add_after(key, result.seconds)

    def _finish(self, key: str, outcome: str) -> None:
        self.results[outcome] += 1
        self.queue.forget(key)
