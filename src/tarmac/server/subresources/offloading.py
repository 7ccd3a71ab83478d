"""Runs long computations, explanations and plans, in a thread.

For ten thousand instances they take seconds of CPU, during which the event loop could not serve any other request. So
they run in a thread, on a snapshot of all objects that they may read. The objects in a snapshot are immutable, so
taking one only copies references. Data computed from it is freed with the response, so the garbage collector is
disabled meanwhile. The event loop gets the interpreter back within the switch interval, half a millisecond, whenever it
has work.

Explanations and plans have threads of their own: a plan takes seconds, and neither an explanation nor work in the
loop's default threads (files of the dashboard, compression) may wait for one. `userqueue` shares the threads between
users.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from tarmac.base.garbage import collector_disabled
from tarmac.base.tasks import finished
from tarmac.decide.explain import looked_at
from tarmac.decide.snapshot.snapshot import AT_THE_SERVER, Objects, ResourceSource, Snapshot
from tarmac.server.storage.resourcestorage import ResourceStorage

T = TypeVar("T")

MAX_THREADS: Final = 2  # of each pool: a short computation runs beside a long one
EXPLANATIONS: Final = ThreadPoolExecutor(MAX_THREADS, "explanations")
PLANS: Final = ThreadPoolExecutor(MAX_THREADS, "plans")


def snapshot(storage: ResourceStorage, sources: Iterable[ResourceSource[Any]] | None = None) -> Objects:
    """Return the current objects of these sources; by default, of all that an explanation of this kind reads."""
    buckets = [source.resource for source in sources or looked_at(storage.bucket, AT_THE_SERVER)]
    store = storage.store
    objects = {bucket: {entry.name: entry.raw for entry in store.list(bucket).entries} for bucket in buckets}
    return Objects(storage.services.clock.now(), objects)


async def run_in_thread(
    world: Snapshot, question: Callable[[Snapshot], T], threads: ThreadPoolExecutor = EXPLANATIONS
) -> T:
    """Run `question` on a snapshot in a thread and return its result.

    A cancellation is delivered when the thread has ended: a client that gives up must not get a second thread.
    """
    with collector_disabled():
        return await finished(asyncio.get_running_loop().run_in_executor(threads, question, world))
