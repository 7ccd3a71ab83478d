"""The eviction loop: signals in, image collection and evictions out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from tarmac.agent.collection.deadcontainers import DeadContainers
from tarmac.agent.collection.unusedimages import ImageCollector
from tarmac.agent.eviction.evictionmanager import EvictionManager
from tarmac.agent.eviction.judgement import Judgement
from tarmac.agent.eviction.signals import EvictionSignals, Reading
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.decide.allocatable.thresholds import thresholds
from tests.agent.stats.scene import Scene, asks, pod, volume

MEMORY, DISK = "memory.available", "nodefs.available"


class Stage(Scene):
    """A node with readings of the test, which records the manager's actions."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logs)
        self.readings: dict[str, list[int]] = {MEMORY: [1000], DISK: [1000]}
        self.listed: list[dict[str, Any]] = []
        self.done: list[Any] = []
        self.told: list[str] = []
        self.changes = 0
        limits = thresholds({MEMORY: "100", DISK: "100"}, {}, {}, {})
        self.evictions = EvictionManager(
            signals=cast("EvictionSignals", self),
            judgement=Judgement(limits, 300.0),
            pods=self,
            stats=self.stats,
            images=cast("ImageCollector", self),
            containers=cast("DeadContainers", self),
            recorder=cast("Recorder", self),
            about=InvolvedObject("v1", "Node", "n"),
            clock=self.clock,
            changed=self._changed,
        )

    def read(self) -> dict[str, Reading]:
        """Each call takes the next value; the last one stays."""
        found = {name: values.pop(0) if len(values) > 1 else values[0] for name, values in self.readings.items()}
        return {name: Reading(value, 1000) for name, value in found.items()}

    def allocated(self) -> list[dict[str, Any]]:
        return self.listed

    def evict(self, pod: dict[str, Any], reason: str, message: str, grace: float | None = None) -> None:
        self.done.append(("evict", pod["metadata"]["name"], reason, grace))

    async def collect(self) -> int:
        self.done.append("containers")
        return 0

    async def free(self, missing: int, least_age: float | None = None) -> int:
        self.done.append("images")
        return 0

    def event(self, about: InvolvedObject, type: str, reason: str, message: str) -> None:
        self.told.append(f"{reason}: {message}")

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_with_room_enough_nobody_is_asked_anything(stage: Stage) -> None:
    stage.listed = [pod("a")]
    assert await stage.evictions.check() is None
    assert (stage.done, stage.looks, stage.changes) == ([], 0, 0)


async def test_short_of_memory_one_pod_goes_and_the_condition_shows(stage: Stage) -> None:
    stage.add("small", "c0", memory=10)
    stage.add("large", "c0", memory=900)
    stage.listed = [pod("small"), pod("large")]
    stage.readings[MEMORY] = [50]
    assert await stage.evictions.check() == "uid-large"
    assert stage.done == [("evict", "large", "Evicted", 1.0)]
    assert stage.evictions.conditions == {"MemoryPressure"}
    assert stage.changes == 1
    assert stage.told == ["EvictionThresholdMet: Attempting to reclaim memory"]
    assert "kubelet_evictions" in {sample[0] for sample in stage.evictions.metrics()}


async def test_short_of_disk_images_go_first_and_that_may_be_enough(stage: Stage) -> None:
    stage.listed = [pod("a")]
    stage.readings[DISK] = [50, 500]
    assert await stage.evictions.check() is None
    assert stage.done == ["containers", "images"]


async def test_a_disk_that_cannot_be_read_any_more_costs_no_pod(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.add("a", "c0", disk=10)
    stage.listed = [pod("a")]
    readings = [{DISK: Reading(50, 1000)}, {DISK: Reading(50, 1000)}, {}]  # check, after collection, before eviction
    monkeypatch.setattr(stage, "read", lambda: readings.pop(0))
    assert await stage.evictions.check() is None
    assert stage.done == ["containers", "images"]


async def test_when_tidying_is_not_enough_a_pod_goes(stage: Stage) -> None:
    stage.add("a", "c0", disk=10)
    stage.listed = [pod("a")]
    stage.readings[DISK] = [50]
    assert await stage.evictions.check() == "uid-a"
    assert stage.done == ["containers", "images", ("evict", "a", "Evicted", 1.0)]


async def test_a_pod_past_its_own_limit_goes_though_there_is_room(stage: Stage) -> None:
    uid = stage.add("greedy", "c0")
    stage.volumes[uid] = {"scratch": volume(3 << 20)}
    stage.listed = [pod("greedy", asks(ephemeral_storage="1Mi")), pod("plain")]
    assert await stage.evictions.check() == uid
    assert stage.done == [("evict", "greedy", "Evicted", 1.0)]


async def test_pods_that_have_ended_do_not_count(stage: Stage) -> None:
    over = pod("over")
    over["status"]["phase"] = "Failed"
    stage.listed = [over]
    stage.readings[MEMORY] = [50]
    assert await stage.evictions.check() is None
    assert stage.done == []


async def test_under_pressure_new_pods_are_refused(stage: Stage) -> None:
    stage.readings[DISK] = [50]
    await stage.evictions.check()
    assert stage.evictions.admission(pod("a")) == ("Evicted", "The node had condition: [DiskPressure]. ")
