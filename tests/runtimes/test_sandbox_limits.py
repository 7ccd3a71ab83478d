"""The pod's cgroup limits a sandbox with its own kernel, and the first process reaps its children."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtimes.machine import RealMachine
from tests.runtimes.test_containers import ended
from tests.support.containerd import no_network

pytestmark = [pytest.mark.root]


async def test_a_sandbox_over_the_memory_of_its_pod_is_killed_and_says_so(own_kernel: RealMachine) -> None:
    memory = Path("/sys/fs/cgroup/memory")
    if not memory.is_dir():
        pytest.skip("this machine has no memory controller of cgroup v1, which this test writes to")
    pod = own_kernel.sandbox()
    group = memory / pod.cgroup_parent.lstrip("/")
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(str(128 << 20))
    sandbox_id = await own_kernel.make(pod)
    greedy = replace(own_kernel.waits(), command=("tail", "/dev/zero"))
    running = await own_kernel.run_in(sandbox_id, pod, greedy)
    exited = await ended(running)
    assert exited.reason == "OOMKilled"
    async with asyncio.timeout(10):
        while (await own_kernel.runtime.sandbox(sandbox_id)).ready:
            await asyncio.sleep(0.05)


async def test_the_pause_process_reaps_orphans_of_a_shared_process_namespace(shared_kernel: RealMachine) -> None:
    security = replace(no_network(), share_processes=True)
    running = await shared_kernel.run(replace(shared_kernel.waits(), security=security), security=security)
    await running.says("sh", "-c", "(sleep 0.2 &) ; true")
    await asyncio.sleep(0.6)
    states = await running.says("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z ' || true")
    assert states == "0"
