"""The order of evictions, and the message of the evicted pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarmac.agent.eviction.evictionmanager import is_limited, overdrawn, refusal
from tarmac.agent.eviction.ranking import message, ranked
from tarmac.agent.stats.podstats import PodMetrics
from tests.agent.stats.scene import Scene, asks, pod, volume

MEMORY, DISK, PIDS = "memory.available", "nodefs.available", "pid.available"


async def figures(scene: Scene) -> dict[str, PodMetrics]:
    return {each.uid: each for each in await scene.stats.pods()}


def names(pods: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


async def test_memory_first_those_that_exceed_their_request_then_priority_then_by_how_much(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for name, used in (("modest", 50), ("over", 200), ("far-over", 400), ("important", 900)):
        scene.add(name, "c0", memory=used)
    pods = [
        pod("modest", asks(memory="100")),
        pod("over", asks(memory="100")),
        pod("far-over", asks(memory="100")),
        pod("important", asks(memory="100"), priority=1000),
    ]
    found = ranked(MEMORY, pods, await figures(scene))
    assert names(found) == ["far-over", "over", "important", "modest"]


async def test_disk_by_what_is_written(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.add("writer", "c0", disk=5000)
    scene.add("reader", "c0", disk=10)
    assert names(ranked(DISK, [pod("reader"), pod("writer")], await figures(scene))) == ["writer", "reader"]


async def test_processes_by_priority_then_by_number(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for name, count in (("few", 3), ("many", 300), ("important", 900)):
        scene.add(name, "c0", processes=count)
    pods = [pod("few"), pod("important", priority=5), pod("many")]
    assert names(ranked(PIDS, pods, await figures(scene))) == ["many", "few", "important"]


def test_static_and_critical_pods_are_never_chosen() -> None:
    static = pod("static")
    static["metadata"]["annotations"] = {"kubernetes.io/config.source": "file"}
    assert ranked(MEMORY, [static, pod("critical", priority=2_000_001_000)], {}) == []


async def test_the_message_in_kubelets_words(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    uid = scene.add("a", "c0", memory=3 << 20)
    said = message(MEMORY, pod("a", asks(memory="1Mi")), (await figures(scene))[uid], 100 << 20, 50 << 20)
    assert said == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        "Container c0 was using 3Mi, request is 1Mi, has larger consumption of memory. "
    )


async def test_limits_on_local_storage(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    uid = scene.add("a", "c0", disk=2 << 20)
    scene.volumes[uid] = {"scratch": volume(3 << 20)}
    (found,) = await scene.stats.pods()
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}
    assert (
        overdrawn(pod("a", volumes=[scratch]), found) == 'Usage of EmptyDir volume "scratch" exceeds the limit "2Mi". '
    )
    assert overdrawn(pod("a", asks(ephemeral_storage="4Mi")), found) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
    )
    one_of_two = pod("a", asks(ephemeral_storage="1Mi"), asks(ephemeral_storage="1Gi"))
    assert overdrawn(one_of_two, found) == 'Container c0 exceeded its local ephemeral storage limit "1Mi". '
    assert overdrawn(pod("a", asks(ephemeral_storage="1Gi")), found) is None


def test_only_pods_with_a_limit_are_measured() -> None:
    assert not is_limited(pod("a", asks(memory="1Gi")))
    assert is_limited(pod("a", asks(ephemeral_storage="1Gi")))
    assert is_limited(pod("a", volumes=[{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}]))


def test_whom_a_node_under_pressure_takes() -> None:
    tolerant = pod("a", tolerations=[{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}])
    assert refusal(pod("a"), frozenset()) is None
    assert refusal(pod("a"), {"MemoryPressure"}) == ("Evicted", "The node had condition: [MemoryPressure]. ")
    assert refusal(tolerant, {"MemoryPressure"}) is None
    assert refusal(pod("a", asks(memory="1Gi")), {"MemoryPressure"}) is None
    assert refusal(pod("a", asks(memory="1Gi")), {"DiskPressure"}) == (
        "Evicted",
        "The node had condition: [DiskPressure]. ",
    )
    assert refusal(pod("a", priority=2_000_000_000), {"DiskPressure"}) is None
