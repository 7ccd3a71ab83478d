"""A process of controllers that is killed at one of its writes, before or after the server has received it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal

from tarmac.client.transport import ClientRequest, Reply, StreamReply, Transport

When = Literal["before", "after"]


class Mortal:
    """A link to the server of a process that is killed at a step: from then on it neither sends nor receives."""

    def __init__(self, link: Transport, step: str, when: When, step_of: Callable[[ClientRequest], str]) -> None:
        self._link, self._step, self._when, self._step_of = link, step, when, step_of
        self.steps = set[str]()
        self.killed = asyncio.Event()

    async def request(self, request: ClientRequest) -> Reply:
        await self._live_on()
        step = self._step_of(request)
        self.steps.add(step)
        if step != self._step:
            return await self._link.request(request)
        if self._when == "after":
            await self._link.request(request)
        self.killed.set()
        await self._live_on()
        raise AssertionError("it was killed")

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        return self._link.stream(request)

    async def close(self) -> None:
        await self._link.close()

    async def _live_on(self) -> None:
        if self.killed.is_set():
            await asyncio.Event().wait()
