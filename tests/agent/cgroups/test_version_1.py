"""The pods' cgroups on the kernel's own version 1 trees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v1 import V1
from tarmac.agent.model.allotment import PodAllotment
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.stats.topology import online
from tarmac.base.clock import SystemClock
from tarmac.base.cpuset import CPUSet
from tarmac.base.randomness import Randomness

pytestmark = [pytest.mark.root]
TREES = Path("/sys/fs/cgroup")


def pod(uid: str, cpu: str = "200m", memory: str = "64Mi", request: str = "100m") -> PodAllotment:
    limits, requests = {"cpu": cpu, "memory": memory}, {"cpu": request, "memory": memory}
    containers = [{"name": "c", "resources": {"limits": limits, "requests": requests}}]
    made = AgentPod({"metadata": {"name": uid, "namespace": "n", "uid": uid}, "spec": {"containers": containers}})
    return Allocator(AllocationSettings(pids=50)).allot(made)


@pytest.fixture
async def groups() -> AsyncGenerator[KubePods]:
    hierarchy = mounted()
    if not isinstance(hierarchy, V1):
        pytest.skip("NOT RUN: this machine has no version 1 control groups")
    root = f"/tarmac-test-{Randomness().suffix()}"
    made = KubePods(hierarchy, root, SystemClock())
    made.prepare()
    made.enforce({"cpu": 2000, "memory": 4 << 30}, 1000)
    yield made
    await made.remove_all()
    assert hierarchy.remove(root)


def value(controller: str, path: str, file: str) -> str:
    return (TREES / controller / path.lstrip("/") / file).read_text().strip()


async def test_all_pods_together_get_what_is_allocatable(groups: KubePods) -> None:
    assert value("cpu", groups.top, "cpu.shares") == "2048"
    assert value("memory", groups.top, "memory.limit_in_bytes") == str(4 << 30)
    assert value("pids", groups.top, "pids.max") == "1000"
    assert value("cpu", groups.top + "/besteffort", "cpu.shares") == "2"


async def test_the_quota_comes_only_with_the_update(groups: KubePods) -> None:
    path = await groups.create(pod("a"))
    assert path == f"{groups.top}/burstable/poda"
    assert value("cpu", path, "cpu.cfs_quota_us") == "-1"
    assert value("cpu", path, "cpu.shares") == "102"
    assert value("memory", path, "memory.limit_in_bytes") == str(64 << 20)
    assert value("pids", path, "pids.max") == "50"
    await groups.update(pod("a"))
    assert value("cpu", path, "cpu.cfs_quota_us") == "20000"


async def test_limits_change_in_place(groups: KubePods) -> None:
    path = await groups.create(pod("a"))
    await groups.update(pod("a", cpu="1", memory="128Mi", request="500m"))
    assert value("cpu", path, "cpu.cfs_quota_us") == "100000"
    assert value("memory", path, "memory.limit_in_bytes") == str(128 << 20)
    assert value("cpu", path, "cpu.shares") == "512"


async def test_burstable_pods_weigh_together_what_they_ask_for(groups: KubePods) -> None:
    level = groups.top + "/burstable"
    for uid in ("a", "b"):
        await groups.create(pod(uid, request="150m"))
    assert value("cpu", level, "cpu.shares") == "307"
    await groups.remove("a")
    assert value("cpu", level, "cpu.shares") == "153"


async def test_guaranteed_pods_are_right_below_the_top(groups: KubePods) -> None:
    assert await groups.create(pod("g", request="200m")) == f"{groups.top}/podg"


async def test_a_process_can_live_in_it_though_cpusets_start_empty(groups: KubePods) -> None:
    path = await groups.create(pod("a"))
    sleeper = await asyncio.create_subprocess_exec("sleep", "60")
    for controller in ("cpuset", "memory", "cpu"):
        (TREES / controller / path.lstrip("/") / "cgroup.procs").write_text(str(sleeper.pid))
    await groups.remove("a")
    assert await sleeper.wait() == -9
    assert groups.uids() == set()
    assert not (TREES / "memory" / path.lstrip("/")).exists()


async def test_removing_a_pod_cgroup_removes_the_cgroups_of_the_runtime_below_it(groups: KubePods) -> None:
    path = await groups.create(pod("a"))
    for controller in ("memory", "systemd", "unified"):
        (TREES / controller / path.lstrip("/") / "container").mkdir(parents=True)
    await groups.remove("a")
    left = [tree for tree in TREES.iterdir() if (tree / path.lstrip("/")).exists()]
    assert left == []


async def test_removing_what_is_not_there_is_fine(groups: KubePods) -> None:
    await groups.remove("never-was")


async def test_cgroups_of_unknown_pods_are_swept(groups: KubePods) -> None:
    await groups.create(pod("known"))
    await groups.create(pod("orphan"))
    assert await groups.sweep({"known"}) == ["orphan"]
    assert groups.uids() == {"known"}


async def test_memory_in_use_is_seen(groups: KubePods) -> None:
    await groups.create(pod("a"))
    assert groups.memory_used() >= 0


async def test_a_restarted_agent_finds_what_pods_weigh(groups: KubePods) -> None:
    await groups.create(pod("a", request="1"))
    again = KubePods(mounted(), groups.top.removesuffix("/kubepods"), SystemClock())
    again.prepare()
    assert value("cpu", groups.top + "/burstable", "cpu.shares") == "1024"


async def test_processors_that_came_later_reach_the_pods(groups: KubePods) -> None:
    if len(online()) < 2:
        pytest.skip("NOT RUN: this machine has one processor")
    levels = ("/burstable", "/besteffort", "")
    for level in levels:
        (TREES / "cpuset" / f"{groups.top}{level}".lstrip("/") / "cpuset.cpus").write_text("0")
    groups.prepare()
    assert {value("cpuset", groups.top + level, "cpuset.cpus") for level in levels} == {str(online())}


async def test_a_quota_can_go_below_that_of_a_container(groups: KubePods) -> None:
    path = await groups.create(pod("a"))
    inner = TREES / "cpu" / path.lstrip("/") / "container"
    inner.mkdir()
    (inner / "cpu.cfs_quota_us").write_text("150000")
    await groups.update(pod("a", cpu="500m"))
    assert value("cpu", path, "cpu.cfs_quota_us") == "50000"
    assert (inner / "cpu.cfs_quota_us").read_text().strip() == "50000"


async def test_a_pod_moves_from_one_processor_to_another_with_what_is_below_it(groups: KubePods) -> None:
    if len(online()) < 2:
        pytest.skip("NOT RUN: this machine has one processor")
    hierarchy, path = mounted(), await groups.create(pod("a"))
    top = TREES / "cpuset" / path.lstrip("/")
    for name in ("container", "container/nested", "other"):
        (top / name).mkdir()
        (top / name / "cpuset.mems").write_text("0")
    sleeper = await asyncio.create_subprocess_exec("sleep", "60")
    for cpus, inner in (("0-1", "1"), ("0", "0"), ("1", "1"), ("0-1", "0")):
        hierarchy.pin(path, CPUSet.parse(cpus), {"container": CPUSet.parse(inner)})
        (top / "container/nested/cgroup.procs").write_text(str(sleeper.pid))
        assert [value("cpuset", f"{path}{name}", "cpuset.cpus") for name in ("", "/container", "/other")] == [
            cpus,
            inner,
            cpus,
        ]
        assert hierarchy.allowed(path) == CPUSet.parse(inner)
    sleeper.kill()
    await sleeper.wait()
