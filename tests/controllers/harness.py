"""Controllers over a model server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.informer import Informers
from tests.client.model_server import ModelServer


class Stage:
    """The server, a client to it and informers over it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = ModelServer(clock=self.clock)
        self.client = Client(self.server.transport(), self.clock, Randomness(3))
        self.informers = Informers(self.client)

    async def settle(self, seconds: float = 4.0) -> None:
        """Let a little time pass."""
        for _ in range(8):
            for _ in range(60):
                await asyncio.sleep(0)
            self.clock.advance(seconds / 8)
        for _ in range(60):
            await asyncio.sleep(0)


@asynccontextmanager
async def playing(stage: Stage, *parts: Callable[[], Coroutine[Any, Any, Any]]) -> AsyncGenerator[Stage]:
    """Run controllers while the body runs."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part()) for part in (stage.informers.run, *parts)]
        await stage.settle()
        yield stage
        for task in tasks:
            task.cancel()
