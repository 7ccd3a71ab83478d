"""Handlers of all exceptions end the process when memory runs out, instead of continuing with half of its work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import NoReturn, cast

import pytest

from tarmac.base.tasks import Tasks
from tarmac.client.cache import Cache
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.client.feed import Kept
from tarmac.client.targets.untyped import PODS
from tarmac.client.watch import Change
from tarmac.http.messages import Stream
from tarmac.http.streams import stream_of

POD = Change("ADDED", EnvelopeMetadata(name="a", namespace="n", uid="1", resource_version="1"), b"{}")


class Ended(BaseException):
    """Replaces the end of the process."""


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    codes: list[int] = []

    def end(code: int) -> NoReturn:
        codes.append(code)
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    return codes


def too_much(*_: object) -> NoReturn:
    raise MemoryError


def test_a_handler_of_a_cache() -> None:
    cache = Cache(PODS)
    cache.add_handler(too_much)
    with pytest.raises(Ended):
        cache.changed(POD)


def test_a_reader_of_a_feed() -> None:
    with pytest.raises(Ended):
        Kept(too_much, too_much).changed(POD)


async def test_a_streamed_answer(ended: list[int]) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield too_much()

    stream_of(chunks()).start(cast("Stream", None))
    await asyncio.sleep(0)
    assert ended == [1]


async def test_a_task_that_nobody_awaits(ended: list[int]) -> None:
    async def work() -> None:
        too_much()

    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)  # of the test's process
    tasks = Tasks()
    tasks.begin(work(), "greedy")
    await tasks.settled()
    assert ended == [1]
