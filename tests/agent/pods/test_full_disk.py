"""The file system of the agent's folders, or of /run, is full: running pods go on, new ones wait for space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.pods.machine import Machine, container_status, play
from tests.support.smalldisk import SmallDisk, small_disk

pytestmark = pytest.mark.root


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def fill(disk: SmallDisk, how: str) -> None:
    if how == "bytes":
        disk.fill()
    else:
        disk.fill_inodes()


@pytest.mark.parametrize("how", ["bytes", "inodes"])
def test_running_pods_continue_and_new_pods_start_once_there_is_space(how: str, disk: SmallDisk) -> None:
    async def story(machine: Machine) -> None:
        await machine.create("old")
        await machine.phase("Running", "old")
        await machine.wait(5)
        fill(disk, how)
        await machine.create("new", container={"name": "other"})
        await machine.wait(60)
        assert "main" in await machine.running()
        machine.runtime.end_container(await machine.id("main"), 1)
        await machine.wait(400)
        disk.free()
        await machine.phase("Running", "new", seconds=200)
        status = await machine.phase("Running", "old", seconds=400)
        assert container_status(status)["restartCount"] >= 1
        assert await machine.running() == ["main", "other"]

    play(story, root=disk.path)


@pytest.mark.parametrize("how", ["bytes", "inodes"])
def test_an_agent_that_starts_on_a_full_disk_takes_up_what_runs(how: str, disk: SmallDisk) -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        ids = await machine.remember_containers()
        await machine.wait(5)
        await machine.kill()
        fill(disk, how)
        await machine.start()
        await machine.wait(300)
        assert await machine.remember_containers() == ids
        assert (await machine.status())["phase"] == "Running"

    play(story, root=disk.path)


@pytest.mark.parametrize("how", ["bytes", "inodes"])
def test_pods_are_deleted_on_a_full_disk(how: str, disk: SmallDisk) -> None:
    """Deleting them frees space."""

    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        await machine.wait(5)
        fill(disk, how)
        await machine.pods.delete("web", "default")
        await machine.gone()
        assert await machine.runtime.sandboxes() == []

    play(story, root=disk.path)
