"""Limits, processors and classes of a machine whose controllers are on version 2, enforced by its kernel.

`tools/cgroups_v2.sh` runs this file alone, on a machine that has neither our virtual environment nor the internet.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.agent.model.pod import AgentPod
from tarmac.base.clock import SystemClock
from tarmac.base.cpuset import CPUSet
from tarmac.decide.qosclasses.blockio import THROTTLES, BlockioParameters

TOP = Path("/sys/fs/cgroup")
ROOT = f"/tarmac-test-{os.getpid()}"
GROUP = f"{ROOT}/group"
MIB = 1 << 20


def offered() -> set[str]:
    file = TOP / "cgroup.controllers"
    return set(file.read_text().split()) if file.exists() else set()


pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        not {"cpu", "memory", "pids", "cpuset"} <= offered(),
        reason=f"NOT RUN: the controllers are not on a version 2 tree at {TOP}",
    ),
]


@pytest.fixture
def tree() -> Iterator[V2]:
    made = mounted()
    assert isinstance(made, V2)
    made.make(GROUP)
    try:
        yield made
    finally:
        made.kill(ROOT)
        deadline = time.monotonic() + 10
        while not made.remove(ROOT) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not made.exists(ROOT)


def start(tree: V2, script: str, group: str = GROUP) -> subprocess.Popen[bytes]:
    """Run a shell script in a group."""
    (entrance,) = tree.entrances(group)
    return subprocess.Popen(["sh", "-c", f"echo $$ > {entrance}; {script}"], stderr=subprocess.DEVNULL)


def python(code: str) -> str:
    return f"exec {sys.executable} -c '{code}'"


def test_a_quota_bounds_the_time_of_processors(tree: V2) -> None:
    tree.limit(GROUP, CgroupLimits(quota=20_000))
    with start(tree, "while :; do :; done") as busy:
        time.sleep(0.2)
        before, began = tree.cpu_used(GROUP), time.monotonic()
        time.sleep(2)
        share = (tree.cpu_used(GROUP) - before) / (time.monotonic() - began)
        busy.kill()
    assert 0.1 < share < 0.25, "limited to a fifth of a processor"


def test_shares_decide_who_gets_a_contended_processor(tree: V2) -> None:
    (cpu, *_) = sorted(os.sched_getaffinity(0))
    groups = {f"{ROOT}/few": 512, f"{ROOT}/many": 2048}
    for group, shares in groups.items():
        tree.make(group)
        tree.limit(group, CgroupLimits(shares=shares))
        assert abs(tree.shares(group) - shares) < 64
        tree.pin(group, CPUSet([cpu]), {})
    running = [start(tree, "while :; do :; done", group) for group in groups]
    time.sleep(3)
    few, many = (tree.cpu_used(group) for group in groups)
    for each in running:
        each.kill()
        each.wait()
    assert 2.5 < many / few < 6, "the ratio is four to one"


def test_memory_beyond_the_limit_ends_the_process(tree: V2) -> None:
    tree.limit(GROUP, CgroupLimits(memory=64 * MIB))
    swap = TOP / GROUP[1:] / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")
    with start(tree, python(f"bytearray({256 * MIB})")) as greedy:
        assert greedy.wait(30) == -9
    assert tree.oom_kills(GROUP) == 1


def test_processes_beyond_the_limit_are_not_started(tree: V2) -> None:
    tree.limit(GROUP, CgroupLimits(pids=4))
    code = "import os; [os.fork() or os._exit(0) for _ in range(9)]"
    with start(tree, python(code)) as forking:
        assert forking.wait(30) != 0
    assert "max 0" not in (TOP / GROUP[1:] / "pids.events").read_text().splitlines()


def test_a_group_runs_on_its_processors_alone(tree: V2) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("NOT RUN: one processor only")
    tree.make(f"{GROUP}/inner")
    tree.pin(GROUP, CPUSet(cpus[:2]), {"inner": CPUSet(cpus[1:2])})
    with start(tree, "exec sleep 60", f"{GROUP}/inner") as pinned:
        time.sleep(0.2)
        assert os.sched_getaffinity(pinned.pid) == {cpus[1]}
        assert tree.allowed(GROUP) == CPUSet(cpus[1:2])
        tree.pin(GROUP, CPUSet(cpus[:1]), {"inner": CPUSet(cpus[:1])})
        assert os.sched_getaffinity(pinned.pid) == {cpus[0]}
        pinned.kill()


def test_a_pod_has_the_limits_of_its_containers_and_goes_whole(tree: V2) -> None:
    pods = KubePods(tree, ROOT, SystemClock())
    resources = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    allotment = Allocator(AllocationSettings()).allot(
        AgentPod({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    )

    async def story() -> None:
        pods.prepare()
        path = await pods.create(allotment)
        folder = TOP / path.lstrip("/")
        assert (folder / "cpu.max").read_text() == "max 100000\n", "set before the containers start"
        await pods.update(allotment)
        assert (folder / "cpu.max").read_text() == "50000 100000\n"
        assert (folder / "memory.max").read_text() == f"{128 * MIB}\n"
        with start(tree, "exec sleep 60", path) as inside:
            await asyncio.sleep(0.2)
            assert tree.inhabitants(path) == {inside.pid}
            await pods.remove("u")
            assert inside.wait(10) == -9
        assert not tree.exists(path)

    asyncio.run(story())


def disk() -> tuple[int, int] | None:
    """Return the device numbers of a whole disk, if there is one."""
    for each in sorted(Path("/sys/block").iterdir()):
        if (each / "device").exists():
            major, minor = (each / "dev").read_text().split(":")
            return int(major), int(minor)
    return None


@pytest.mark.skipif("io" not in offered(), reason="NOT RUN: the controller io is not on the version 2 tree")
def test_a_class_limits_the_rates_of_a_disk(tree: V2) -> None:
    if (device := disk()) is None:
        pytest.skip("NOT RUN: this machine shows no disk")
    files = tree.block_io()
    assert files is not None
    for rate in (8 * MIB, 4 * MIB):
        wanted = BlockioParameters(throttles={THROTTLES[0]: {device: rate}})
        files.put(GROUP, wanted)
        assert files.has(GROUP, wanted)
        assert f"{device[0]}:{device[1]} rbps={rate}" in (TOP / GROUP[1:] / "io.max").read_text()
    files.put(GROUP, BlockioParameters())
    assert (TOP / GROUP[1:] / "io.max").read_text() == ""
