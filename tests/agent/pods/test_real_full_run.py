"""/run is full under a real containerd: running pods go on, new ones wait with an event, and start with space."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.client.targets.untyped import EVENTS
from tarmac.runtimes.parts import find_parts
from tests.agent.pods.realmachine import RealMachine, pod, real_machine
from tests.support.containerd import ContainerdNode
from tests.support.smalldisk import SmallDisk, small_disk

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.fixture
def node(tmp_path: Path) -> ContainerdNode:
    return ContainerdNode(find_parts(path=""), tmp_path / "containerd", os.getpid(), spare=True)


@pytest.fixture
def run_dir(node: ContainerdNode) -> Iterator[SmallDisk]:
    """Return the state folder of a containerd, with its sockets and pipes, on a small file system."""
    with small_disk(node.settings.run, "8m", 4000) as disk:
        try:
            node.start()
            yield disk
        finally:
            disk.free()
            node.stop()


@pytest.mark.parametrize("how", ["bytes", "inodes"])
async def test_pods_live_through_a_full_run(how: str, node: ContainerdNode, run_dir: SmallDisk, tmp_path: Path) -> None:
    async with real_machine(node, tmp_path) as machine:
        await machine.pods.create(pod("old"))
        before = await machine.phase("Running", "old")
        run_dir.fill() if how == "bytes" else run_dir.fill_inodes()
        await machine.pods.create(pod("new"))
        await machine.until(lambda: _told(machine, "new"))
        assert (await machine.status("new")).get("phase", "Pending") == "Pending"
        assert (await machine.status("old"))["containerStatuses"] == before["containerStatuses"]
        run_dir.free()
        await machine.phase("Running", "new")
        await machine.pods.delete("old", "default")
        await machine.until(lambda: _gone(machine, "old"))


async def _told(machine: RealMachine, name: str) -> bool:
    events = (await machine.user.resource(EVENTS).list("default")).items
    about = [each for each in events if each["involvedObject"]["name"] == name and each["type"] == "Warning"]
    return any("no space left" in each["message"].lower() for each in about)


async def _gone(machine: RealMachine, name: str) -> bool:
    return all(each["metadata"]["name"] != name for each in (await machine.pods.list("default")).items)
