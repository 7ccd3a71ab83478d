"""The processes of a city run in cgroups with limits. The tests use files in place of the kernel's tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarmac.agent.cgroups.v2 import V2
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.apps.cities.cgroups import Confinement
from tarmac.apps.cities.layout import CityLayout

GROUPS = ("pods/dfw", "own/dfw/runtime", "own/dfw/agent")


class SmallMachine(MachineStats):
    """A machine with 6 GiB of memory."""

    def __init__(self) -> None:
        super().__init__()

    def memory(self) -> Any:
        return SimpleNamespace(total=6 << 30)

    def processes(self) -> tuple[int, int]:
        return 1000, 10


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for group in GROUPS:
        for folder in (tmp_path / group, *(tmp_path / group).parents):
            if folder.is_relative_to(tmp_path):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "cgroup.controllers").write_text("cpu memory pids")
                (folder / "cgroup.subtree_control").write_text("")
    return tmp_path


@pytest.fixture
def dfw(tmp_path: Path) -> CityLayout:
    host = cast("Any", SimpleNamespace(name="dfw"))
    return CityLayout("DFW", host, tmp_path, tmp_path, "/pods/dfw", "/own/dfw")


def test_each_group_has_its_limit(tree: Path, dfw: CityLayout) -> None:
    Confinement(V2(tree), SmallMachine()).prepare(dfw)
    assert (tree / "pods/pids.max").read_text() == "900", "of all cities together"
    assert (tree / "own/dfw/runtime/memory.max").read_text() == str(6 << 28), "a quarter of a small machine"
    assert (tree / "own/dfw/agent/memory.max").read_text() == str(1 << 30)


@pytest.mark.parametrize("which", ["runtime", "agent"])
def test_a_process_is_in_its_group_before_it_begins(tree: Path, dfw: CityLayout, which: str) -> None:
    confined = Confinement(V2(tree), SmallMachine())
    command = [*getattr(confined, which)(dfw), "sh", "-c", 'echo "$$ $0"', "an argument with -- in it"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.split(" ", 1)
    assert said[1] == "an argument with -- in it\n"
    assert (tree / f"own/dfw/{which}/cgroup.procs").read_text() == f"{said[0]}\n"


def test_a_process_that_cannot_be_confined_does_not_begin(tree: Path, dfw: CityLayout) -> None:
    (tree / "own/dfw/runtime").rename(tree / "gone")
    done = subprocess.run(
        [*Confinement(V2(tree), SmallMachine()).runtime(dfw), "true"], capture_output=True, timeout=10
    )
    assert done.returncode


def test_one_that_runs_already_is_moved(tree: Path, dfw: CityLayout) -> None:
    Confinement(V2(tree), SmallMachine()).adopt_runtime(dfw, [os.getpid()])
    assert (tree / "own/dfw/runtime/cgroup.procs").read_text() == str(os.getpid())
