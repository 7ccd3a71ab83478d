"""Image garbage collection: eligible images, and images that are never removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.agent.collection import unusedimages as collecting
from tarmac.agent.collection.unusedimages import ImageCollector, missing_bytes
from tarmac.agent.config.configreader import API_VERSION, KIND, decode
from tarmac.agent.stats.hostusage import FileSystem
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.runtimes.interface import Image, Runtime, RuntimeRefused
from tests.agent.stats.scene import Scene


class Stage(Scene):
    """A runtime with images, on a disk of 1000 bytes."""

    def __init__(self, logs: Path, **settings: Any) -> None:
        super().__init__(logs)
        self.here: dict[str, Image] = {}
        self.stuck: set[str] = set()
        self.told: list[str] = []
        kubelet = decode({"apiVersion": API_VERSION, "kind": KIND, **settings})
        self.collector = ImageCollector(
            cast("Runtime", self), kubelet, self.clock, cast("Recorder", self), InvolvedObject("v1", "Node", "n"),
            lambda: "pause:1",
        )  # fmt: skip

    def have(self, name: str, size: int = 100, *, pinned: bool = False) -> None:
        self.here[name] = Image(name, (f"{name}:1",), (), size, pinned=pinned)

    async def images(self) -> list[Image]:
        return list(self.here.values())

    async def image_space(self) -> tuple[str, int, int]:
        return "/images", 0, 0

    async def remove_image(self, name: str, handler: str = "") -> None:
        if name in self.stuck:
            raise RuntimeRefused("it is stuck")
        del self.here[name]

    def event(self, about: InvolvedObject, type: str, reason: str, message: str) -> None:
        self.told.append(reason)

    def disk(self, path: str) -> FileSystem:
        used = sum(image.size for image in self.here.values())
        return FileSystem(1000, 1000 - used, used, 0, 0)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(tmp_path)
    monkeypatch.setattr(collecting, "file_system", made.disk)
    return made


async def test_below_the_high_mark_everything_stays(stage: Stage) -> None:
    for name in "abc":
        stage.have(name)
    stage.clock.advance(600)
    await stage.collector.refresh()
    await stage.collector.collect()
    assert stage.here.keys() == set("abc")


async def test_past_the_high_mark_the_longest_unused_go_until_the_low_mark(stage: Stage) -> None:
    for name in "abc":
        stage.have(name, 300)
    container = stage.container("p", "c0")
    for name in "ba":  # b was used first, then a; c was never used
        stage.all_containers[:] = [_with_image(container, name)]
        await stage.collector.refresh()
        stage.clock.advance(300)
    stage.all_containers.clear()
    await stage.collector.collect()
    assert stage.here.keys() == {"a", "b"}
    assert stage.collector.removed == 1
    stage.have("d", 300)
    await stage.collector.refresh()
    stage.clock.advance(300)
    await stage.collector.collect()
    assert stage.here.keys() == {"a", "b"}  # d was never used either


async def test_in_use_pinned_new_and_the_sandboxes_own_never_go(stage: Stage) -> None:
    for name in ("used", "pause", "old"):
        stage.have(name, 200)
    stage.have("pinned", 200, pinned=True)
    stage.all_containers[:] = [_with_image(stage.container("p", "c0"), "used")]
    await stage.collector.refresh()
    stage.clock.advance(600)
    stage.have("new", 150)
    await stage.collector.refresh()
    await stage.collector.collect()
    assert stage.here.keys() == {"used", "pause", "pinned", "new"}


async def test_space_that_cannot_be_freed_is_an_event(stage: Stage) -> None:
    stage.have("stuck", 900)
    stage.stuck.add("stuck")
    await stage.collector.refresh()
    stage.clock.advance(600)
    await stage.collector.collect()
    assert stage.told == ["FreeDiskSpaceFailed"]


async def test_past_the_maximum_age_unused_images_go_though_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, imageMaximumGCAge="1h")
    monkeypatch.setattr(collecting, "file_system", stage.disk)
    stage.have("old")
    await stage.collector.refresh()
    stage.clock.advance(3000)
    stage.have("young")
    await stage.collector.refresh()
    stage.clock.advance(700)
    await stage.collector.collect()
    assert stage.here.keys() == {"young"}


def test_missing_bytes_bring_the_disk_below_the_low_threshold() -> None:
    assert missing_bytes(FileSystem(1000, 100, 900, 0, 0), 80) == 100


def _with_image(container: Any, name: str) -> Any:
    from dataclasses import replace

    return replace(container, image=f"{name}:1", image_id=name)
