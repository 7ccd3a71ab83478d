"""Usage of pods: combined from the runtime's responses, shared between callers, with infrequent walks of volumes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.agent.stats.agent import pod_metrics, process_metrics
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.agent.stats.summary import NodeStats
from tarmac.runtimes.qemu.machinemetrics import MachineMetrics
from tests.agent.stats.scene import Scene, pod, volume
from tests.support.exposition import series


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_containers_are_found_by_their_labels(scene: Scene) -> None:
    scene.add("a", "c0", "c1", memory=100)
    scene.container("a", "old", state="exited")
    (found,) = await scene.stats.pods()
    assert [each.name for each in found.containers] == ["c0", "c1"]
    assert (found.uid, found.memory) == ("uid-a", 200)


async def test_a_dead_sandbox_uses_nothing(scene: Scene) -> None:
    scene.add("a", "c0")
    scene.all_sandboxes[0] = replace(scene.all_sandboxes[0], ready=False)
    assert await scene.stats.pods() == []


async def test_a_look_is_shared_for_a_few_seconds(scene: Scene) -> None:
    scene.add("a", "c0")
    await scene.stats.pods()
    await scene.stats.pods()
    assert scene.looks == 1
    scene.clock.advance(5)
    await scene.stats.pods()
    assert scene.looks == 2
    await scene.stats.pods(fresh=0)
    assert scene.looks == 3


async def test_rates_are_between_one_look_and_the_next(scene: Scene) -> None:
    scene.add("a", "c0")
    (first,) = await scene.stats.pods()
    assert first.containers[0].measured.cores is None
    before = scene.usages["a-c0"]
    scene.usages["a-c0"] = replace(before, at=before.at + 10, cpu=before.cpu + 5)
    (second,) = await scene.stats.pods(fresh=0)
    assert second.containers[0].measured.cores == 0.5


async def test_a_counter_that_went_back_has_no_rate(scene: Scene) -> None:
    scene.add("a", "c0")
    await scene.stats.pods()
    scene.usages["a-c0"] = replace(scene.usages["a-c0"], at=scene.clock.now() + 10, cpu=0.0)
    (found,) = await scene.stats.pods(fresh=0)
    assert found.containers[0].measured.cores is None


async def test_ephemeral_storage_is_layers_logs_and_volumes_without_a_disk(scene: Scene, tmp_path: Path) -> None:
    uid = scene.add("a", "c0", disk=1000)
    logs = tmp_path / f"default_a_{uid}" / "c0"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(bytes(300))
    (logs / "0.log.1.gz").write_bytes(bytes(20))
    scene.volumes[uid] = {"scratch": volume(50), "disk": volume(9999, shared=False)}
    (found,) = await scene.stats.pods()
    assert found.ephemeral == 1000 + 320 + 50


async def test_volumes_are_walked_once_a_minute(scene: Scene) -> None:
    scene.add("a", "c0")
    for _ in range(5):
        await scene.stats.pods(fresh=0)
        scene.clock.advance(10)
    assert scene.walks == 1
    scene.clock.advance(10)
    await scene.stats.pods(fresh=0)
    assert scene.walks == 2


async def test_the_summary_in_the_shape_of_kubelets(scene: Scene, tmp_path: Path) -> None:
    uid = scene.add("a", "c0", memory=100, disk=10)
    scene.volumes[uid] = {"scratch": volume(50)}
    figures = NodeStats("dfw-0", MachineStats(), scene.stats, tmp_path, lambda: "", scene.clock)
    summary = await figures.summary()
    node, (found,) = summary["node"], summary["pods"]
    assert node["nodeName"] == "dfw-0"
    assert node["cpu"]["usageCoreNanoSeconds"] > 0
    assert {"availableBytes", "workingSetBytes"} <= node["memory"].keys()
    assert node["runtime"]["imageFs"]["capacityBytes"] == node["fs"]["capacityBytes"]
    assert found["podRef"] == {"name": "a", "namespace": "default", "uid": uid}
    assert found["containers"][0]["memory"]["workingSetBytes"] == 100
    assert found["containers"][0]["rootfs"]["usedBytes"] == 10
    assert found["cpu"]["usageCoreNanoSeconds"] == 2_000_000_000
    assert found["network"]["rxBytes"] == 7
    assert found["volume"][0] | {"time": ""} == {
        "name": "scratch", "time": "", "availableBytes": 1 << 29, "capacityBytes": 1 << 30, "usedBytes": 50,
        "inodesFree": 900, "inodes": 1000, "inodesUsed": 5,
    }  # fmt: skip
    assert found["ephemeral-storage"]["usedBytes"] == 60


async def test_metrics_of_the_agent_itself(scene: Scene, tmp_path: Path) -> None:
    running = pod("a")
    running["status"]["containerStatuses"] = [{"state": {"running": {}}}, {"state": {"waiting": {}}}]
    sources = [process_metrics, pod_metrics("dfw-0", lambda: [running])]
    figures = NodeStats("dfw-0", MachineStats(), scene.stats, tmp_path, lambda: "", scene.clock, sources)
    lines = (await figures.metrics()).splitlines()
    assert 'kubelet_node_name{node="dfw-0"} 1' in lines
    assert "kubelet_running_pods 1" in lines
    assert 'kubelet_running_containers{container_state="running"} 1' in lines
    assert "# TYPE process_cpu_seconds_total counter" in lines


async def test_a_histogram_is_one_family_of_the_metrics(scene: Scene, tmp_path: Path) -> None:
    counted = MachineMetrics()
    counted.boots("7", asked=10.0, now=10.2)
    sources = [lambda: counted.samples(Counter(), Counter(), 0)]
    figures = NodeStats("dfw-0", MachineStats(), scene.stats, tmp_path, lambda: "", scene.clock, sources)
    text = await figures.metrics()
    assert series(text)
    lines = text.splitlines()
    assert [each for each in lines if "histogram" in each] == ["# TYPE tarmac_machine_start_seconds histogram"]
    assert 'tarmac_machine_start_seconds_bucket{phase="process",le="0.25"} 1' in lines
    assert 'tarmac_machine_start_seconds_count{phase="process"} 1' in lines
    assert 'tarmac_machine_start_seconds_count{phase="ready"} 0' in lines


def test_a_machine_is_counted_ready_once_for_each_start_and_not_when_it_ended_before() -> None:
    counted = MachineMetrics()
    counted.serves("adopted", now=1.0)
    for asked in (10.0, 20.0):
        counted.boots("7", asked, asked + 1)
        counted.serves("7", asked + 4)
        counted.serves("7", asked + 5)
    counted.boots("7", 30.0, 31.0)
    counted.ended("GuestPanicked", "7")
    counted.serves("7", 50.0)
    assert (sum(counted.served.counts), counted.served.sum) == (2, 8.0)
