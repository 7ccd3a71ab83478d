"""Runs a callback whenever one object of the store has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn

from tarmac.store.interface import Event, Reads


async def at_each_change(store: Reads, bucket: str, name: str, look: Callable[[], Awaitable[None]]) -> NoReturn:
    """Call `look` after each change of the object, until cancelled."""
    changed = asyncio.Event()

    def heard(events: Sequence[Event]) -> None:
        # An empty batch means that changes were missed, possibly of this object.
        if not events or any(event.entry.name == name for event in events):
            changed.set()

    unsubscribe = store.subscribe(bucket, heard)
    try:
        while True:
            await changed.wait()
            changed.clear()  # cleared before the call, so that a change during it causes one more call
            await look()
    finally:
        unsubscribe()
