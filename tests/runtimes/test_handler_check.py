"""A handler with its own kernel is offered only after a sandbox has run with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.fake import FakeRuntime
from tarmac.runtimes.handlercheck import check_handlers
from tarmac.runtimes.interface import RuntimeRefused, RuntimeUnreachable
from tests.runtimes.machine import RealMachine


@pytest.mark.root
async def test_a_handler_that_works_is_kept_and_nothing_is_left_of_the_trial(own_kernel: RealMachine) -> None:
    runtime = own_kernel.runtime
    proof = await check_handlers(runtime, str(own_kernel.node.folder), own_kernel.node.cgroup_root)
    assert {handler.name: handler.own_kernel for handler in proof.status.handlers} == {"gvisor": True, "runc": False}
    assert proof.failures == {}
    assert await runtime.sandboxes("trial-gvisor") == []


async def test_a_handler_that_fails_is_left_out_with_its_reason(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    runtime.trouble("run_sandbox", RuntimeRefused("the platform is not supported"))
    proof = await check_handlers(runtime, str(tmp_path), "/tarmac")
    assert [handler.name for handler in proof.status.handlers] == ["runc"]
    assert proof.failures == {"gvisor": "the platform is not supported"}


async def test_the_sandbox_of_an_interrupted_check_does_not_fail_the_next(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    runtime.trouble("remove_sandbox", RuntimeRefused("busy"))
    await check_handlers(runtime, str(tmp_path), "/tarmac")
    assert (await check_handlers(runtime, str(tmp_path), "/tarmac")).failures == {}
    assert await runtime.sandboxes() == []


async def test_a_runtime_that_goes_away_says_nothing_about_its_handlers(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    runtime.trouble("run_sandbox", RuntimeUnreachable("connection lost"))
    with pytest.raises(RuntimeUnreachable):
        await check_handlers(runtime, str(tmp_path), "/tarmac")
