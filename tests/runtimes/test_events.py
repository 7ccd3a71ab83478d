"""Changes are reported, by pod, without polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from tarmac.runtimes.interface import RuntimeEvent
from tests.runtimes.machine import Machine


async def until(events: AsyncGenerator[RuntimeEvent | None], uid: str) -> None:
    """Return the next event of this pod."""
    async with asyncio.timeout(20):
        async for event in events:
            if event is not None and event.pod_uid == uid:
                return


async def test_the_first_event_says_to_look_at_everything(machine: Machine) -> None:
    async with aclosing(machine.runtime.events()) as events:
        assert await anext(events) is None


async def test_a_start_and_an_end_are_told(machine: Machine) -> None:
    async with aclosing(machine.runtime.events()) as events:
        assert await anext(events) is None
        running = await machine.run(machine.waits())
        await until(events, running.pod.pod.uid)
        await machine.runtime.stop_container(running.id, 5)
        await until(events, running.pod.pod.uid)
