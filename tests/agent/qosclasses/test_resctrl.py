"""Groups of cache and memory bandwidth, on a FAKE tree behind the real driver.

No machine of this project has the hardware. Files of the tree keep written values; unlike a kernel's they do not take a
thread out of its previous group, and do not validate.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import cast

import pytest

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.qosclasses.kernel import KernelClasses
from tarmac.agent.qosclasses.resctrl import Resctrl, mounted_resctrl
from tests.agent.pods.machine import Machine, play
from tests.agent.qosclasses.imaginary import Containerd, Kernel, classed
from tests.agent.qosclasses.test_pods_in_classes import asking, events, resize, shown


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in (".", "gold", "lead"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "tasks").touch()
    return tmp_path


def test_a_plain_process_is_put_into_a_group_with_all_its_threads(top: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        kernel = Kernel(inside={"/machines/vm-1": {process.pid, os.getpid()}})
        classes = KernelClasses(cast("Hierarchy", kernel), lambda: Resctrl(top), dict)
        assert not classes.has("/machines/vm-1", "rdt", "gold")
        classes.put("/machines/vm-1", "rdt", "gold")
        assert classes.has("/machines/vm-1", "rdt", "gold")
        threads = {int(each) for each in (top / "gold/tasks").read_text().split()}
        assert threads == {process.pid, *(int(each) for each in os.listdir("/proc/self/task"))}
    finally:
        process.kill()
        process.wait()


def test_a_group_that_does_not_exist_is_not_made(top: Path) -> None:
    with pytest.raises(CgroupError, match="No such file"):
        Resctrl(top).move("tin", lambda: {os.getpid()})
    assert not (top / "tin").exists()


def test_processes_that_have_ended_are_nobodys(top: Path) -> None:
    Resctrl(top).move("gold", lambda: {2**22 + 1})
    assert not Resctrl(top).holds("gold", {2**22 + 1})


def test_finding_it(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\nresctrl /sys/fs/resctrl resctrl rw 0 0\n")
    assert mounted_resctrl(mounts) is not None
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert mounted_resctrl(mounts) is None


def test_a_pod_in_a_class_of_the_kernels(top: Path) -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine, resctrl=lambda: Resctrl(top))
        assert isinstance(machine.runtime, Containerd)
        await machine.create(**asking({"rdt": "gold"}))
        await machine.ready()
        main = await machine.id()
        assert machine.runtime.spec(main)["intelRdt"] == {"closID": "gold"}
        assert (
            "blockIO" not in machine.runtime.spec(main)["resources"]
            or not machine.runtime.spec(main)["resources"]["blockIO"]
        )
        made.kernel.inside[machine.runtime.group(main)] = {os.getpid()}
        await machine.wait(11)
        assert await shown(machine) == {"rdt": "gold"}
        await resize(machine, {"classes": {"rdt": "lead"}})
        await machine.wait(1)
        assert str(os.getpid()) in (top / "lead/tasks").read_text().split()
        assert await shown(machine) == {"rdt": "lead"}

    play(story, start=False)


def test_a_pod_in_a_class_of_the_runtimes(top: Path, tmp_path: Path) -> None:
    from tarmac.agent.qosclasses.runtimefiles import RuntimeFiles

    file = tmp_path / "rdt.yaml"
    file.write_text("partitions: {p: {classes: {gold: {}}}}\n")

    async def story(machine: Machine) -> None:
        made = await classed(machine, resctrl=lambda: Resctrl(top), files=RuntimeFiles(rdt=str(file)))
        assert isinstance(machine.runtime, Containerd)
        await machine.create(**asking({"rdt": "gold"}))
        await machine.ready()
        [container] = await machine.runtime.containers()
        assert container.annotations["io.kubernetes.cri.rdt-class"] == "gold"
        assert not machine.runtime.spec(container.id).get("intelRdt")
        assert await shown(machine) == {"rdt": ""}, "the runtime did not do it"
        assert await events(machine, "ClassNotEffective") == ["Container main is not in class rdt/gold"]
        made.kernel.inside[machine.runtime.group(container.id)] = {os.getpid()}
        Resctrl(top).move("gold", lambda: {os.getpid()})
        await machine.wait(11)
        assert await shown(machine) == {"rdt": "gold"}

    play(story, start=False)
