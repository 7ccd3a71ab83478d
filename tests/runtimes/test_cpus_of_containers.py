"""A container that was created and has not started can get other processors, and starts there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.agent.stats.topology import online
from tarmac.runtimes.interface import Resources
from tests.runtimes.machine import RealMachine


async def test_told_after_it_was_made_and_before_it_begins(real_machine: RealMachine) -> None:
    if len(online()) < 2:
        pytest.skip("NOT RUN: this machine has one processor")
    pod = real_machine.sandbox()
    sandbox = await real_machine.make(pod)
    config = replace(real_machine.waits(), resources=Resources(cpuset_cpus="0-1", cpu_shares=512))
    made = await real_machine.runtime.create_container(sandbox, config, pod)
    await real_machine.runtime.update_container(made, Resources(cpuset_cpus="0"))
    await real_machine.runtime.start_container(made)
    assert (await real_machine.runtime.container(made)).state == "running"
    if real_machine.handler == "runc":  # under a kernel of its own, the sandbox's cgroup decides
        said = await real_machine.runtime.exec(made, ["grep", "Cpus_allowed_list", "/proc/self/status"], 10)
        assert said.stdout.split()[1] == b"0"
    await real_machine.runtime.update_container(made, Resources(cpuset_cpus="0-1"))
