"""Subscribers to runtime events, each with a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

from tarmac.runtimes.interface import RuntimeEvent

What = Literal["created", "started", "stopped", "deleted", ""]


class Listeners:
    """Delivers each event to all subscribers."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[RuntimeEvent | None]] = []

    def notify(self, event: RuntimeEvent) -> None:
        """Queue an event for all subscribers."""
        for queue in self._queues:
            queue.put_nowait(event)

    async def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """Subscribe. The first item is None: list everything, since earlier events were missed."""
        queue: asyncio.Queue[RuntimeEvent | None] = asyncio.Queue()
        queue.put_nowait(None)
        self._queues.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.remove(queue)
