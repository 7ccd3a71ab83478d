"""Pods on a machine whose controllers are on version 2: exclusive processors, sizes, and classes, by its kernel.

`tools/cgroups_v2.sh` runs this file with test_real_version_2, on a machine with neither our virtual environment nor the
internet.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator, PodAllotment
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.cpumanager.manager import CPUManager, NodeCpus
from tarmac.agent.cpumanager.statefile import StateFile
from tarmac.agent.model.pod import AgentPod
from tarmac.base.clock import SystemClock
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import Topology
from tarmac.decide.qosclasses.blockio import THROTTLES, BlockioParameters
from tests.agent.cgroups.test_real_version_2 import GROUP, MIB, ROOT, TOP, offered, pytestmark, python, start, tree
from tests.decide.cpus.pods import container
from tests.decide.cpus.pods import pod as spec_of

__all__ = ["pytestmark", "tree"]


def pod(uid: str, cpu: str, limit: str = "", memory: str = "64Mi") -> AgentPod:
    made = container("main", cpu, limit)
    made["resources"]["requests"]["memory"] = made["resources"]["limits"]["memory"] = memory
    return AgentPod({"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec_of(made)})


def allotment(of: AgentPod) -> PodAllotment:
    return Allocator(AllocationSettings()).allot(of)


def file(path: str, name: str) -> str:
    return (TOP / path.lstrip("/") / name).read_text().strip()


def test_exclusive_processors_are_left_by_every_other_pod(tree: V2, tmp_path: Path) -> None:
    """The agent writes the decisions of the static policy to the kernel while each pod runs a busy process."""
    cpus = CPUSet(sorted(os.sched_getaffinity(0))[:6])
    if len(cpus) < 4:
        pytest.skip(f"NOT RUN: {len(cpus)} processors, 4 needed")
    machine, state = NodeCpus(Topology.flat(cpus), CPUSet([min(cpus)])), StateFile(tmp_path)
    manager = CPUManager(machine, state, state.read(cpus, machine.reserved))
    pods = {uid: pod(uid, cpu, limit) for uid, cpu, limit in (("two", "2", ""), ("one", "1", ""), ("rest", "1", "2"))}
    for uid, each in pods.items():
        tree.make(f"{ROOT}/{uid}/main")
        assert manager.admit(each) is None
    running = {uid: start(tree, "while :; do :; done", f"{ROOT}/{uid}/main") for uid in pods}

    def place() -> dict[str, set[int]]:
        for uid in pods:
            whole = manager.of_pod(uid)
            assert whole is not None
            tree.pin(f"{ROOT}/{uid}", whole, {"main": manager.of_container(uid, "main")})
        time.sleep(0.2)
        return {uid: os.sched_getaffinity(each.pid) for uid, each in running.items()}

    try:
        found = place()
        assert {uid: len(each) for uid, each in found.items()} == {"two": 2, "one": 1, "rest": len(cpus) - 3}
        assert not found["two"] & found["one"]
        assert not (found["two"] | found["one"]) & found["rest"]
        later = CPUManager(machine, state, state.read(cpus, machine.reserved))
        assert later.own("two") == CPUSet(found["two"]), "a restarted agent knows them"
        manager.release("two")
        assert place()["rest"] == found["rest"] | found["two"]
    finally:
        for each in running.values():
            each.kill()
            each.wait()


def test_a_resized_pod_has_its_new_limits_while_it_runs(tree: V2) -> None:
    pods = KubePods(tree, ROOT, SystemClock())

    async def story() -> None:
        pods.prepare()
        path = await pods.create(allotment(pod("u", "500m", "1")))
        await pods.update(allotment(pod("u", "500m", "1")))
        assert (file(path, "cpu.max"), file(path, "memory.max")) == ("100000 100000", f"{64 * MIB}")
        with start(tree, python(f"import time; kept = bytearray({48 * MIB}); time.sleep(60)"), path) as inside:
            deadline = time.monotonic() + 10
            while tree.memory_used(path) < 48 * MIB and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            assert 48 * MIB <= tree.memory_used(path) < 64 * MIB
            await pods.update(allotment(pod("u", "500m", "2", memory="96Mi")))
            assert (file(path, "cpu.max"), file(path, "memory.max")) == ("200000 100000", f"{96 * MIB}")
            assert inside.poll() is None
            inside.kill()
        await pods.remove("u")

    asyncio.run(story())


def test_all_pods_together_have_what_the_node_can_give(tree: V2) -> None:
    pods = KubePods(tree, ROOT, SystemClock())

    async def story() -> None:
        pods.prepare()
        pods.enforce({"cpu": 1500, "memory": 256 * MIB}, pids=64)
        paths = {uid: await pods.create(allotment(pod(uid, "100m", "200m"))) for uid in ("a", "b")}
        top = os.path.commonpath(paths.values())
        kubepods = top[: top.index("kubepods") + len("kubepods")]
        assert (file(kubepods, "memory.max"), file(kubepods, "pids.max")) == (f"{256 * MIB}", "64")
        code = 'import os; [os.fork() or os._exit(not __import__("time").sleep(5)) for _ in range(99)]'
        with start(tree, python(code), paths["a"]) as forking:
            assert forking.wait(30) != 0
        assert sorted(KubePods(tree, ROOT, SystemClock()).uids()) == ["a", "b"], "a restarted agent finds them"
        assert await pods.sweep({"b"}) == ["a"]
        assert (tree.exists(paths["a"]), tree.exists(paths["b"])) == (False, True)
        await pods.remove_all()

    asyncio.run(story())


@pytest.mark.skipif("io" not in offered(), reason="NOT RUN: the controller io is not on the version 2 tree")
def test_a_class_gives_a_weight(tree: V2) -> None:
    files = tree.block_io()
    assert files is not None
    known = [each for each in ("io.weight", "io.bfq.weight") if (TOP / GROUP[1:] / each).exists()]
    if not known:
        pytest.skip("NOT RUN: this kernel has no scheduler with weights")
    wanted = BlockioParameters(weight=500)
    files.put(GROUP, wanted)
    assert files.has(GROUP, wanted)
    assert "500" in file(GROUP, known[0]) or known[0] == "io.weight"


@pytest.mark.skipif("io" not in offered(), reason="NOT RUN: the controller io is not on the version 2 tree")
def test_a_class_bounds_the_rate_of_writes(tree: V2, tmp_path: Path) -> None:
    if (device := disk_of(tmp_path)) is None:
        pytest.skip(f"NOT RUN: {tmp_path} is on no disk of this machine")
    files = tree.block_io()
    assert files is not None
    free = written(tree, tmp_path)
    rate = 4 * MIB
    if free < 4 * rate:
        pytest.skip(f"NOT RUN: the disk writes {free / MIB:.0f} MiB/s without a limit")
    files.put(GROUP, BlockioParameters(throttles={THROTTLES[1]: {device: rate}}))
    assert 0.5 * rate < written(tree, tmp_path) < 1.5 * rate


def written(tree: V2, folder: Path) -> float:
    """Return the bytes per second that a process of the group writes with direct I/O."""
    code = (
        "import mmap, os, sys, time\n"
        "made = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)\n"
        "block = mmap.mmap(-1, 1 << 20)\n"
        "began, total = time.monotonic(), 0\n"
        "while time.monotonic() - began < 3: total += os.pwrite(made, block, total % (64 << 20))\n"
        "print(total / (time.monotonic() - began))\n"
    )
    (entrance,) = tree.entrances(GROUP)
    script = f'echo $$ > {entrance}; exec "$0" -c "$1" "$2"'
    words = ["sh", "-c", script, sys.executable, code, str(folder / "written")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    return float(done.stdout)


def disk_of(folder: Path) -> tuple[int, int] | None:
    """Return the disk of a folder that supports direct I/O."""
    try:
        made = os.open(folder / "trial", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    except OSError:
        return None
    with mmap.mmap(-1, 4096) as block:
        try:
            os.write(made, block)
        except OSError:
            return None
        finally:
            os.close(made)
    number = os.stat(folder).st_dev
    entry = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    whole = entry.parent if (entry / "partition").exists() else entry
    if not (whole / "dev").exists():
        return None
    major, minor = (whole / "dev").read_text().split(":")
    return int(major), int(minor)
