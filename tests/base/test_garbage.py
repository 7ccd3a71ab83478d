"""Code that allocates many objects without cycles runs without collections."""

from __future__ import annotations

import asyncio
import gc
from contextlib import ExitStack

from tarmac.base.garbage import collector_disabled
from tarmac.decide.snapshot.snapshot import Objects
from tarmac.server.subresources.offloading import run_in_thread


def test_nobody_looks_for_garbage_until_the_last_is_done() -> None:
    assert gc.isenabled()
    first, second = collector_disabled(), collector_disabled()
    with first:
        with second:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_those_who_never_pause_keep_nobodys_garbage() -> None:
    with ExitStack() as quiet:
        for _ in range(50):
            quiet.enter_context(collector_disabled())
        assert not gc.isenabled()
        quiet.enter_context(collector_disabled())
        assert gc.isenabled()
    assert gc.isenabled()
    with collector_disabled():
        assert not gc.isenabled(), "the collector is off again after a pause"
    assert gc.isenabled()


def test_where_nobody_looked_before_nobody_does_after() -> None:
    gc.disable()
    try:
        with collector_disabled():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


async def test_questions_are_worked_out_without_and_one_that_fails_ends_it_too() -> None:
    def fails(_: object) -> bool:
        raise ValueError("no such thing")

    world = Objects(0.0)
    seen = await asyncio.gather(
        run_in_thread(world, lambda _: gc.isenabled()), run_in_thread(world, fails), return_exceptions=True
    )
    assert seen[0] is False
    assert isinstance(seen[1], ValueError)
    assert gc.isenabled()
