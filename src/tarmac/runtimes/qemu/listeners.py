"""Those who want to hear of changes, each with a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

from tarmac.runtimes.interface import RuntimeEvent

What = Literal["created", "started", "stopped", "deleted", ""]


class Listeners:
    """Tells all of them."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[RuntimeEvent | None]] = []

    def tell(self, event: RuntimeEvent) -> None:
        """Something changed."""
        for queue in self._queues:
            queue.put_nowait(event)

    async def events(self) -> AsyncGenerator[RuntimeEvent | None]:
        """What changes from now on, after a first word to look at everything."""
        queue: asyncio.Queue[RuntimeEvent | None] = asyncio.Queue()
        queue.put_nowait(None)
        self._queues.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._queues.remove(queue)
