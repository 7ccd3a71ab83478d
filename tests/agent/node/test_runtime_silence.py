"""A node whose runtime does not respond reports that after half a minute, with the reason."""

from __future__ import annotations

from typing import Any, cast

from tarmac.agent.node.runtimehealth import RuntimeHealth
from tarmac.base.clock import ManualClock
from tarmac.runtimes.handlercheck import HandlerCheck
from tarmac.runtimes.interface import Handler, Runtime, RuntimeStatus, RuntimeUnreachable

FINE = RuntimeStatus("containerd", "1.7.24", True, True, (Handler("runc"),))
SANDBOXED = RuntimeStatus("containerd", "1.7.24", True, True, (Handler("gvisor", own_kernel=True), Handler("runc")))


class Answers:
    """A runtime with settable responses."""

    def __init__(self, answer: RuntimeStatus | Exception) -> None:
        self.answer = answer
        self.trials = 0

    async def status(self) -> RuntimeStatus:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def health(
    answer: RuntimeStatus | Exception, failures: dict[str, str] | None = None
) -> tuple[RuntimeHealth, Answers, ManualClock]:
    clock, runtime = ManualClock(), Answers(answer)

    async def prove() -> HandlerCheck:
        runtime.trials += 1
        return HandlerCheck(FINE, failures or {})

    return RuntimeHealth(cast("Runtime", runtime), clock, prove), runtime, clock


async def test_before_the_first_answer_nothing_is_ready() -> None:
    found, _, _ = health(RuntimeUnreachable("connection refused"))
    await found.refresh()
    assert "connection refused" in found.unready


async def test_a_short_silence_changes_nothing() -> None:
    found, runtime, clock = health(FINE)
    await found.refresh()
    assert found.unready == ""
    runtime.answer = RuntimeUnreachable("connection refused")
    clock.advance(29)
    await found.refresh()
    assert found.unready == ""
    clock.advance(2)
    await found.refresh()
    assert found.unready == "container runtime is down: it has not answered for 31s: connection refused"


async def test_it_is_ready_again_with_the_next_answer() -> None:
    found, runtime, clock = health(FINE)
    await found.refresh()
    clock.advance(60)
    assert found.unready
    runtime.answer = FINE
    await found.refresh()
    assert found.unready == ""


async def test_the_reason_of_an_unready_runtime_is_reported() -> None:
    broken: dict[str, Any] = {"reason": "NetworkPluginNotReady", "message": "cni plugin not initialized"}
    found, _, _ = health(RuntimeStatus("containerd", "1", True, False, (), **broken))
    await found.refresh()
    assert found.unready == (
        "container runtime network not ready: NetworkReady=false "
        "reason:NetworkPluginNotReady message:cni plugin not initialized"
    )


async def test_a_handler_with_its_own_kernel_is_tried_once_before_it_is_offered() -> None:
    found, runtime, _ = health(SANDBOXED)
    assert found.handlers() == frozenset()
    for _ in range(2):
        await found.refresh()
    assert found.handlers() == {"", "gvisor", "runc"}
    assert runtime.trials == 1


async def test_a_handler_that_fails_is_not_offered_and_tried_again_when_the_runtime_comes_back() -> None:
    found, runtime, _ = health(SANDBOXED, {"gvisor": "no shim"})
    for _ in range(2):
        await found.refresh()
    assert found.handlers() == {"", "runc"}
    assert runtime.trials == 1
    runtime.answer = RuntimeUnreachable("gone")
    await found.refresh()
    runtime.answer = SANDBOXED
    await found.refresh()
    assert runtime.trials == 2


async def test_a_runtime_that_dies_under_the_trial_proves_nothing_about_its_handlers() -> None:
    clock, runtime = ManualClock(), Answers(SANDBOXED)

    async def dies() -> HandlerCheck:
        runtime.answer = RuntimeUnreachable("connection reset")
        return HandlerCheck(FINE, {"gvisor": "connection reset"})

    found = RuntimeHealth(cast("Runtime", runtime), clock, dies)
    await found.refresh()
    assert found.handlers() == frozenset(), "nothing is known yet"
    assert found.unready
