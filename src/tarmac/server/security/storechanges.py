"""Looking again whenever one object of the store has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from tarmac.store.interface import Event, Reads


async def at_each_change(store: Reads, bucket: str, name: str, look: Callable[[], Awaitable[None]]) -> NoReturn:
    """Call `look` after each change of the object, until cancelled."""
    changed = asyncio.Event()

    def heard(events: Sequence[Event]) -> None:
        # An empty batch says that changes were missed, perhaps of this one.
        if not events or any(event.entry.name == name for event in events):
            changed.set()

    unsubscribe = store.subscribe(bucket, heard)
    try:
        while True:
            await changed.wait()
            changed.clear()  # before the look: what changes during it is looked at once more
            await look()
    finally:
        unsubscribe()
