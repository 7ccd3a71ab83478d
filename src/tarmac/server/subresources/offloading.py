"""Questions that take long to think about: explanations and plans.

Over ten thousand instances they take seconds of computing, in which nobody else would be answered. They are therefore
worked out in a thread, on a snapshot of everything that they may look at. What a snapshot refers to never changes, so
taking one costs no more than its references; what is made of it goes when the question is answered, so nobody looks for
garbage meanwhile. The loop gets the interpreter back within the switch interval, half a millisecond, whenever it has
something to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tarmac.base.garbage import uncollected
from tarmac.decide.explain import looked_at
from tarmac.decide.snapshot.snapshot import AT_THE_SERVER, Objects, ResourceSource, Snapshot
from tarmac.server.storage.resourcestorage import ResourceStorage

T = TypeVar("T")


def snapshot(served: ResourceStorage, sources: Iterable[ResourceSource[Any]] | None = None) -> Objects:
    """What the store holds at this moment of these; by default, of what such an object depends on."""
    buckets = [source.resource for source in sources or looked_at(served.bucket, AT_THE_SERVER)]
    store = served.store
    objects = {bucket: {entry.name: entry.raw for entry in store.list(bucket).entries} for bucket in buckets}
    return Objects(served.services.clock.now(), objects)


async def ponder(world: Snapshot, question: Callable[[Snapshot], T]) -> T:
    """The answer to a question about a snapshot."""
    with uncollected():
        return await asyncio.get_running_loop().run_in_executor(None, question, world)
