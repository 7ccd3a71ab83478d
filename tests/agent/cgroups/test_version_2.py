"""Control groups of version 2.

This project's machines have their controllers on version 1, so limits are checked on a FAKE tree of plain files, which
enforce nothing. Creating, killing and removing groups is checked on the kernel's own version 2 tree, which a hybrid
machine has without the controllers. test_real_version_2 and test_real_pods_version_2 need a machine with all
controllers on version 2; test_in_a_machine emulates one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups import hierarchy
from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cgroups.v1 import V1
from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.agent.model.pod import AgentPod
from tarmac.base.clock import ManualClock
from tarmac.base.cpuset import CPUSet
from tarmac.base.randomness import Randomness

UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """Return a tree with /kubepods/burstable/podx and the files that a kernel has in each group."""
    folder = tmp_path / "cgroup"
    for name in (".", "kubepods", "kubepods/burstable", "kubepods/burstable/podx"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "cgroup.controllers").write_text("cpuset cpu io memory pids rdma\n")
        (folder / name / "cgroup.subtree_control").write_text("")
    return folder


def test_limits_in_its_own_words(fake: Path) -> None:
    group = fake / "kubepods/burstable/podx"
    V2(fake).limit("/kubepods/burstable/podx", CgroupLimits(shares=1024, quota=50_000, memory=64 << 20, pids=10))
    written = {name: (group / name).read_text() for name in ("cpu.weight", "cpu.max", "memory.max", "pids.max")}
    assert written == {
        "cpu.weight": "39",
        "cpu.max": "50000 100000",
        "memory.max": str(64 << 20),
        "pids.max": "10",
    }


def test_the_weight_is_read_on_version_1s_scale(fake: Path) -> None:
    V2(fake).limit("/kubepods", CgroupLimits(shares=262144))
    assert V2(fake).shares("/kubepods") == 262144
    assert V2(fake).shares("/nothing") == 0


def test_no_limit_is_the_word_max(fake: Path) -> None:
    V2(fake).limit("/kubepods", CgroupLimits(quota=-1, memory=-1, pids=-1))
    assert (fake / "kubepods/cpu.max").read_text() == "max 100000"
    assert (fake / "kubepods/memory.max").read_text() == "max"


async def test_only_what_a_group_does_not_have_is_written(fake: Path) -> None:
    groups = KubePods(V2(fake), "/", ManualClock())
    new, found = fake / "kubepods/besteffort/podnew", fake / "kubepods/besteffort/podfound"
    for folder in (new.parent, found):
        folder.mkdir()
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        (folder / "cgroup.subtree_control").write_text("")
    (found / "memory.max").write_text("of an earlier agent")
    for uid in ("new", "found"):
        pod = AgentPod(
            {"metadata": {"name": uid, "namespace": "n", "uid": uid}, "spec": {"containers": [{"name": "c"}]}}
        )
        allotment = Allocator(AllocationSettings()).allot(pod)
        await groups.create(allotment)
        await groups.update(allotment)
    assert {each.name for each in new.iterdir()} == {"cpu.weight"}, "a new group has no limits to remove"
    assert (found / "memory.max").read_text() == "max"
    assert (found / "cpu.max").read_text() == "max 100000"


def test_all_pods_together_have_a_limit_of_processes(fake: Path) -> None:
    (fake / "kubepods/besteffort").mkdir()
    made = KubePods(V2(fake), "/", ManualClock())
    made.prepare()
    made.enforce({"cpu": 2000, "memory": 4 << 30}, 1000)
    assert (fake / "kubepods/pids.max").read_text() == "1000"


def test_controllers_are_switched_on_all_the_way_down(fake: Path) -> None:
    V2(fake).make("/kubepods/burstable/podx")
    for name in (".", "kubepods", "kubepods/burstable"):
        assert (fake / name / "cgroup.subtree_control").read_text() == "+cpuset +cpu +io +memory +pids"
    assert (fake / "kubepods/burstable/podx/cgroup.subtree_control").read_text() == ""


def test_the_working_set_leaves_out_what_is_inactive(fake: Path) -> None:
    (fake / "kubepods/memory.current").write_text("1000\n")
    (fake / "kubepods/memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert V2(fake).memory_used("/kubepods") == 700
    assert V2(fake).memory_used("/nothing") == 0


@pytest.mark.root
def test_processes_are_killed_and_groups_removed_by_a_real_kernel() -> None:
    if not (UNIFIED / "cgroup.procs").exists():
        pytest.skip("NOT RUN: no version 2 tree is mounted at /sys/fs/cgroup/unified")
    tree, top = V2(UNIFIED), f"/tarmac-test-{Randomness().suffix()}"
    tree.make(f"{top}/inner")
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        (UNIFIED / f"{top[1:]}/inner/cgroup.procs").write_text(str(sleeper.pid))
        assert not tree.remove(top)
        assert tree.kill(top) == 1
        assert sleeper.wait(5) == -9
    assert tree.remove(top)
    assert not tree.exists(top)


def test_a_group_that_vanishes_during_the_removal_leaves_none_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    (top / "inner").mkdir(parents=True)
    seen = [*hierarchy.below(top), top / "removed-by-the-runtime"]
    monkeypatch.setattr(hierarchy, "below", lambda _folder: seen)
    assert hierarchy.rmdir_tree(top)
    assert not top.exists()


def mountinfo(tmp_path: Path, *mounts: str) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text("".join(f"30 1 0:26 / {mount}\n" for mount in mounts))
    return file


def test_a_machine_with_version_2_only(fake: Path, tmp_path: Path) -> None:
    assert isinstance(mounted(mountinfo(tmp_path, f"{fake} rw - cgroup2 cgroup2 rw")), V2)


def test_a_hybrid_machine_counts_as_version_1(fake: Path, tmp_path: Path) -> None:
    lines = ("/c/cpu rw - cgroup cgroup rw,cpu", "/c/m rw - cgroup cgroup rw,memory", f"{fake} rw - cgroup2 none rw")
    assert isinstance(mounted(mountinfo(tmp_path, *lines)), V1)


def test_a_machine_without_controllers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="cpu and memory"):
        mounted(mountinfo(tmp_path, "/ rw - ext4 /dev/vda rw"))


def test_a_pod_is_put_on_processors_and_its_containers_on_some_of_them(fake: Path) -> None:
    for name in ("podx", "podx/a", "podx/b"):
        (fake / "kubepods" / name).mkdir()
        (fake / "kubepods" / name / "cpuset.cpus").write_text("\n")
    V2(fake).pin("/kubepods/podx", CPUSet.parse("0-2"), {"a": CPUSet([1]), "gone": CPUSet([2])})
    found = {name: (fake / "kubepods" / name / "cpuset.cpus").read_text() for name in ("podx", "podx/a", "podx/b")}
    assert found == {"podx": "0-2", "podx/a": "1", "podx/b": "\n"}
    assert V2(fake).allowed("/kubepods/podx") == CPUSet()


def test_huge_pages_are_limited_where_the_controller_is(fake: Path) -> None:
    (fake / "kubepods/hugetlb.2MB.max").write_text("max")
    V2(fake).limit("/kubepods", CgroupLimits(huge_pages={"2Mi": 4 << 20, "1Gi": 0}))
    assert (fake / "kubepods/hugetlb.2MB.max").read_text() == str(4 << 20)
    assert not (fake / "kubepods/hugetlb.1GB.max").exists()
