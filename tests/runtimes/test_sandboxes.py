"""A sandbox is created for a pod, found by its labels, and removed on request."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.runtimes import labels
from tarmac.runtimes.interface import RuntimeObjectNotFound, RuntimeRefused
from tests.runtimes.machine import Machine


async def test_a_new_sandbox_is_ready_and_says_what_it_was_given(machine: Machine) -> None:
    pod = machine.sandbox(labels={"app": "web"}, annotations={"note": "ä b"})
    sandbox = await machine.runtime.sandbox(await machine.make(pod))
    assert sandbox.ready
    assert sandbox.pod == pod.pod
    assert sandbox.handler == machine.handler
    assert sandbox.labels["app"] == "web"
    assert sandbox.labels[labels.POD_UID] == pod.pod.uid
    assert sandbox.annotations["note"] == "ä b"
    assert sandbox.created_at > 1_700_000_000


async def test_sandboxes_are_found_by_their_pod(machine: Machine) -> None:
    one, two = machine.sandbox(), machine.sandbox()
    first, second = await machine.make(one), await machine.make(two)
    assert [each.id for each in await machine.runtime.sandboxes(one.pod.uid)] == [first]
    everyone = {each.id for each in await machine.runtime.sandboxes()}
    assert {first, second} <= everyone
    assert await machine.runtime.sandboxes("nobody") == []


async def test_a_stopped_sandbox_is_not_ready_and_stays_listed(machine: Machine) -> None:
    pod = machine.sandbox()
    sandbox_id = await machine.make(pod)
    await machine.runtime.stop_sandbox(sandbox_id)
    await machine.runtime.stop_sandbox(sandbox_id)
    [listed] = await machine.runtime.sandboxes(pod.pod.uid)
    assert not listed.ready
    assert not (await machine.runtime.sandbox(sandbox_id)).ready


async def test_stopping_a_sandbox_ends_its_containers(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.stop_sandbox(running.sandbox_id)
    assert (await running.now()).state == "exited"


async def test_a_removed_sandbox_is_gone_with_its_containers(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.stop_sandbox(running.sandbox_id)
    await machine.runtime.remove_sandbox(running.sandbox_id)
    await machine.runtime.remove_sandbox(running.sandbox_id)
    with pytest.raises(RuntimeObjectNotFound):
        await machine.runtime.sandbox(running.sandbox_id)
    with pytest.raises(RuntimeObjectNotFound):
        await running.now()
    assert await machine.runtime.containers(running.pod.pod.uid) == []


async def test_one_attempt_of_a_pod_has_one_sandbox(machine: Machine) -> None:
    pod = machine.sandbox()
    await machine.make(pod)
    with pytest.raises(RuntimeRefused, match="reserve"):
        await machine.make(pod)


async def test_the_next_attempt_may_be_made_beside_the_last(machine: Machine) -> None:
    pod = machine.sandbox()
    await machine.make(pod)
    await machine.make(replace(pod, pod=replace(pod.pod, attempt=1)))
    assert {each.pod.attempt for each in await machine.runtime.sandboxes(pod.pod.uid)} == {0, 1}


async def test_an_unknown_handler_is_refused_by_name(machine: Machine) -> None:
    with pytest.raises(RuntimeRefused, match='no runtime for "nonesuch" is configured'):
        await machine.runtime.run_sandbox(machine.sandbox(), "nonesuch")


async def test_stopping_and_removing_an_absent_sandbox_succeeds(machine: Machine) -> None:
    await machine.runtime.stop_sandbox("nonesuch")
    await machine.runtime.remove_sandbox("nonesuch")
    with pytest.raises(RuntimeObjectNotFound):
        await machine.runtime.sandbox("nonesuch")
