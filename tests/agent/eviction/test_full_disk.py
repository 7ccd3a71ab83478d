"""A pod fills a real file system of the node: it is evicted before other pods fail, and its files are removed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.agent.collection.deadcontainers import DeadContainers
from tarmac.agent.collection.unusedimages import ImageCollector
from tarmac.agent.eviction.evictionmanager import EvictionManager
from tarmac.agent.eviction.judgement import Judgement
from tarmac.agent.eviction.signals import EvictionSignals
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.agent.stats.podstats import PodStats
from tarmac.api.schema import JsonObject
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.decide.allocatable.thresholds import thresholds
from tarmac.volumes.interface import MountedVolume, VolumeUsage
from tests.agent.pods.machine import Machine, PlainVolumes, play
from tests.support.smalldisk import SmallDisk, small_disk

pytestmark = pytest.mark.root

MEBIBYTE = 1 << 20


class Scratch(PlainVolumes):
    """Every pod has a folder, which is measured for real and removed with its pod."""

    def folder(self, uid: str) -> Path:
        return self.root / uid

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]:
        self.folder(pod["metadata"]["uid"]).mkdir(parents=True, exist_ok=True)
        return await super().mount(pod)

    async def unmount(self, pod_uid: str) -> None:
        shutil.rmtree(self.folder(pod_uid), ignore_errors=True)
        await super().unmount(pod_uid)

    async def sweep(self, live: Any) -> Sequence[str]:
        return ()

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        files = [each for each in self.folder(pod_uid).rglob("*") if each.is_file()]
        used = sum(each.stat().st_blocks * 512 for each in files)
        return {"scratch": VolumeUsage(used, 0, 0, len(files), 0, 0, shared=True)}


class Nothing:
    """No images and no dead containers to remove."""

    async def free(self, *_: object, **__: object) -> int:
        return 0

    async def collect(self) -> int:
        return 0

    def event(self, *_: object) -> None:
        return None


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", "16m", 2000) as disk:
        yield disk


def evictions(machine: Machine, disk: SmallDisk) -> EvictionManager:
    """Return the manager that the agent builds, on signals of a real file system."""
    nothing = Nothing()
    return EvictionManager(
        signals=EvictionSignals(MachineStats(), disk.path, lambda: "", lambda: 1 << 40, lambda: 0),
        judgement=Judgement(thresholds({"nodefs.available": "4Mi", "nodefs.inodesFree": "5%"}, {}, {}, {}), 30.0),
        pods=machine.manager,
        stats=PodStats(machine.runtime, machine.volumes, machine.root / "logs", machine.world.clock),
        images=cast("ImageCollector", nothing),
        containers=cast("DeadContainers", nothing),
        recorder=cast("Recorder", nothing),
        about=InvolvedObject("v1", "Node", "n1"),
        clock=machine.world.clock,
    )


@pytest.mark.parametrize("how", ["bytes", "inodes"])
def test_the_pod_that_fills_it_goes_and_the_others_stay(how: str, disk: SmallDisk) -> None:
    async def story(machine: Machine) -> None:
        volumes = machine.volumes = Scratch(machine.root / "volumes")
        await machine.start()
        uids = {name: (await machine.create(name))["metadata"]["uid"] for name in ("modest", "hog")}
        for name in uids:
            await machine.phase("Running", name)
        (volumes.folder(uids["modest"]) / "file").write_bytes(bytes(MEBIBYTE))
        watching = evictions(machine, disk)
        running = asyncio.create_task(watching.run())
        await machine.wait(15)
        assert watching.conditions == frozenset()
        hogged(volumes.folder(uids["hog"]), how)
        status = await machine.phase("Failed", "hog", seconds=60)
        assert status["reason"] == "Evicted"
        assert "DiskPressure" in watching.conditions
        await machine.wait(60)
        assert watching.conditions == frozenset(), "the pod's files were removed with it"
        assert (await machine.status("modest"))["phase"] == "Running"
        assert (volumes.folder(uids["modest"]) / "file").exists()
        await machine.create("next")
        await machine.phase("Running", "next")
        running.cancel()

    play(story, start=False, root=disk.path)


def hogged(folder: Path, how: str) -> None:
    """Write files until the disk is full."""
    try:
        for number in range(100_000):
            (folder / str(number)).write_bytes(bytes(MEBIBYTE if how == "bytes" else 0))
    except OSError:
        return
    raise AssertionError("the disk is larger than thought")
