"""Every change is reported: without events, after a lost event, over a broken connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from tarmac.base.clock import ManualClock
from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.cri.events import changed
from tarmac.runtimes.interface import RuntimeEvent, RuntimeUnreachable
from tests.support.cri_server import CriServer


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[CriServer]:
    """A server with events."""
    made = CriServer(tmp_path / "s", has_events=True)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def runtime(tmp_path: Path, clock: ManualClock) -> AsyncIterator[CriRuntime]:
    """A client of the server at the socket."""
    made = CriRuntime(f"unix://{tmp_path}/s", clock)
    yield made
    await made.close()


def started(uid: str) -> RuntimeEvent:
    """The server's event for each pod."""
    return RuntimeEvent(uid, "container", "started")


async def follow(runtime: CriRuntime) -> AsyncGenerator[RuntimeEvent | None]:
    """Yield events after the first, which always causes a full relist."""
    events = runtime.events()
    assert await anext(events) is None
    return events


async def told(events: AsyncGenerator[RuntimeEvent | None], clock: ManualClock, step: float) -> RuntimeEvent | None:
    """Return the next event, while time passes in steps."""
    waiting = asyncio.ensure_future(anext(events))
    async with asyncio.timeout(10):
        while not waiting.done():
            await asyncio.sleep(0.02)
            clock.advance(step)
    return await waiting


async def test_an_event_tells_of_its_pod_and_what_happened(runtime: CriRuntime, server: CriServer) -> None:
    async with aclosing(await follow(runtime)) as events:
        server.events.put_nowait("some-pod")
        assert await anext(events) == started("some-pod")


async def test_events_that_nobody_waited_for_are_told_once(runtime: CriRuntime, server: CriServer) -> None:
    async with aclosing(await follow(runtime)) as events:
        for uid in ("a", "a", "a", "b"):
            server.events.put_nowait(uid)
        assert await anext(events) == started("a")
        await asyncio.sleep(0.1)
        rest = [await anext(events)]
        while started("b") not in rest:
            rest.append(await anext(events))
        assert len(rest) <= 2


async def test_a_change_whose_event_was_lost_is_found(
    runtime: CriRuntime, server: CriServer, clock: ManualClock
) -> None:
    async with aclosing(await follow(runtime)) as events:
        server.events.put_nowait("first")
        assert await anext(events) == started("first")
        for _ in range(3):  # a relist, and more
            await asyncio.sleep(0.02)
            clock.advance(5)
        server.ready = False
        assert await told(events, clock, 5) == RuntimeEvent("uid")


async def test_without_events_changes_are_found_by_looking(
    runtime: CriRuntime, tmp_path: Path, clock: ManualClock
) -> None:
    server = CriServer(tmp_path / "s", has_events=False)
    await server.start()
    async with aclosing(await follow(runtime)) as events:
        for _ in range(20):
            await asyncio.sleep(0.02)
            clock.advance(1)
        server.ready = False
        assert await told(events, clock, 1) == RuntimeEvent("uid")
    await server.stop()


async def test_after_a_lost_connection_everything_is_looked_at(
    runtime: CriRuntime, server: CriServer, clock: ManualClock
) -> None:
    async with aclosing(await follow(runtime)) as events:
        server.events.put_nowait("before")
        assert await anext(events) == started("before")
        await server.stop()
        await server.start()
        assert await told(events, clock, 0.1) is None
        server.events.put_nowait("after")
        async with asyncio.timeout(10):
            while await told(events, clock, 0.1) != started("after"):
                pass


async def test_a_runtime_that_is_still_starting_is_not_reachable_yet(runtime: CriRuntime, server: CriServer) -> None:
    server.starting = True
    with pytest.raises(RuntimeUnreachable):
        await runtime.sandboxes()


async def test_a_runtime_that_is_not_there_is_not_reachable(tmp_path: Path) -> None:
    runtime = CriRuntime(f"unix://{tmp_path}/nobody")
    with pytest.raises(RuntimeUnreachable):
        await runtime.sandboxes()
    await runtime.close()


def test_added_removed_and_changed_objects_are_changes() -> None:
    before = {"1": ("a", "running"), "2": ("b", "running"), "3": ("c", True)}
    after = {"1": ("a", "exited"), "3": ("c", True), "4": ("d", True)}
    assert changed(before, after) == {"a", "b", "d"}
    assert changed(None, after) == set()
