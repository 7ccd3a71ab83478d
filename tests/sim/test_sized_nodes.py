"""Simulated nodes with sizes, classes, devices and exclusive processors: they admit pods as an agent does."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.kubernetes.core.nodedevices import node_devices
from tarmac.api.schema import JsonObject
from tarmac.apps.main import main
from tarmac.sim.nodes.configuration import BadNodeConfig, ClassLimit, SimNodeConfig, model_of, read_config
from tests.sim.stage import Stage, play

SMALL = SimNodeConfig(
    {"cpu": 8, "memory": "16Gi"},
    {"systemReserved": {"cpu": "1500m", "memory": "1Gi"}, "cpuManagerPolicy": "static"},
    {"blockio": {"slow": ClassLimit(1), "fast": ClassLimit()}},
    {"example.com/gpu": 2},
)
DEFAULT = "blockio.resources.alpha.kubernetes.io/default"


def on_small(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    play(story, models={"dfw": model_of(SMALL)})


def exclusive(cpu: str) -> JsonObject:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    return {"containers": [{"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}]}


def test_the_status_of_a_node_follows_from_its_configuration() -> None:
    async def story(stage: Stage) -> None:
        status = (await stage.node("dfw-0"))["status"]
        assert status["capacity"]["cpu"] == "8"
        assert status["capacity"]["cpu exclusive"] == "6"
        assert status["allocatable"]["cpu"] == "6500m"
        assert status["allocatable"]["memory"] == "15Gi"
        assert status["allocatable"]["example.com/gpu"] == "2"
        assert status["containerClassResources"] == [
            {"name": "blockio", "classes": [{"name": "fast"}, {"name": "slow", "capacity": 1}]}
        ]
        reserved = {(each["resource"], each["for"]): each["amount"] for each in status["reservations"]}
        assert reserved == {("cpu", "system"): "1500m", ("memory", "system"): "1Gi"}
        assert "cpu exclusive" not in (await stage.node("lhr-0"))["status"]["capacity"], "other nodes are unchanged"

    on_small(story)


@pytest.mark.parametrize(("lent", "shown", "allocatable"), [("1", "1", "101"), ("1.5", "1.500", "101500m")])
def test_oversubscription_is_told_as_the_kep_shows_it(lent: str, shown: str, allocatable: str) -> None:
    kubelet = {"systemReserved": {"cpu": "2"}, "kubeReserved": {"cpu": "2"}, "cpuOverSubscriptionCapacity": lent}

    async def story(stage: Stage) -> None:
        status = (await stage.node("dfw-0"))["status"]
        assert status["capacity"]["cpu"] == "104"
        assert status["capacity"]["cpu oversubscription"] == shown
        assert status["allocatable"]["cpu"] == allocatable

    play(story, models={"dfw": model_of(SimNodeConfig({"cpu": "104"}, kubelet))})


def test_processors_are_given_away_refused_and_given_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("four", spec=exclusive("4"))
        await stage.wait(5)
        assert (await stage.pod("four"))["metadata"]["annotations"]["node.tarmac/cpus"] == '{"main":"2-5"}'
        await stage.place("three", spec=exclusive("2500m"))
        await stage.wait(5)
        assert await stage.phase("three") == "Running", "not a whole number: it shares"
        await stage.place("late", "dfw-1", spec=exclusive("7"))
        await stage.wait(5)
        refused = (await stage.pod("late"))["status"]
        assert refused["reason"] == "OutOfcpu"
        await stage.pods.delete("four", "default", grace=0)
        await stage.place("again", spec=exclusive("3"))
        await stage.wait(5)
        assert (await stage.pod("again"))["metadata"]["annotations"]["node.tarmac/cpus"] == '{"main":"2-4"}'

    on_small(story)


def test_without_enough_processors_of_their_own_the_words_are_kubelets() -> None:
    lent = SimNodeConfig(
        {"cpu": 8}, {"systemReserved": {"cpu": "2"}, "cpuManagerPolicy": "static", "cpuOverSubscriptionCapacity": "2"}
    )

    async def story(stage: Stage) -> None:
        await stage.place("six", spec=exclusive("6"))
        await stage.place("two", spec=exclusive("2"))
        await stage.wait(5)
        found = [(await stage.pod(name))["status"] for name in ("six", "two")]
        refused = next(each for each in found if each["phase"] == "Failed")
        assert refused["reason"] == "UnexpectedAdmissionError"
        assert "not enough cpus available to satisfy request: requested=" in refused["message"]

    play(story, models={"dfw": model_of(lent)})


def test_classes_are_shown_refused_and_given_back() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("first", annotations={DEFAULT: "slow"})
        await stage.wait(5)
        assert (await stage.state("first"))["resources"] == {"classes": {"blockio": "slow"}}
        await stage.place("second", annotations={DEFAULT: "slow"})
        await stage.place("gold", annotations={DEFAULT: "gold"})
        await stage.wait(5)
        full, unknown = (await stage.pod("second"))["status"], (await stage.pod("gold"))["status"]
        assert full["reason"] == "ClassExhausted"
        assert full["message"].endswith("class blockio/slow on dfw-0 is full: asked 1, used 1, capacity 1")
        assert unknown["reason"] == "ClassUnavailable"
        assert unknown["message"].endswith("class blockio/gold is not offered on dfw-0; it offers fast, slow")
        await stage.pods.delete("first", "default", grace=0)
        await stage.place("third", annotations={DEFAULT: "slow"})
        await stage.wait(5)
        assert await stage.phase("third") == "Running"

    on_small(story)


def test_a_node_that_loses_power_finds_what_it_gave_away() -> None:
    async def story(stage: Stage) -> None:
        await stage.place("four", spec=exclusive("4"))
        await stage.wait(5)
        stage.fleet.die("dfw-0")
        await stage.wait(30)
        stage.fleet.revive("dfw-0")
        await stage.wait(30)
        assert (await stage.pod("four"))["metadata"]["annotations"]["node.tarmac/cpus"] == '{"main":"2-5"}'
        await stage.place("more", spec=exclusive("3"))
        await stage.wait(10)
        assert (await stage.pod("more"))["status"]["reason"] == "OutOfcpu"

    on_small(story)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("size: {}", "unknown field `size`"),
        ("capacity: {cpu: 1.5}", "cpu is a whole number"),
        ("capacity: {cpu: many}", "capacity: "),
        (
            "capacity: {pods: 3}",
            "capacity.pods: there are cpu, memory, ephemeral-storage and hugepages-SIZE; write kubelet.m",
        ),
        ("capacity: {example.com/gpu: 3}", "write devices"),
        ("kubelet: {systemReserved: {memry: 1Gi}}", 'cannot reserve "memry" resource'),
        ("kubelet: {podsPerCor: 3}", "kubelet.podsPerCor: does not decide about sizes; there are systemReserved"),
        ("kubelet: {port: 3}", "kubelet.port: does not decide about sizes"),
        ("kubelet: {cpuManagerPolicy: static}", "the static policy requires systemreserved.cpu + kubereserved.cpu"),
        ("kubelet: {cpuManagerPolicy: dynamic}", "kubelet.cpuManagerPolicy: "),
        ("kubelet: {systemReserved: {cpu: '40'}}", 'Resource "cpu" has a reservation of 40 but capacity of 32'),
        ("kubelet: {reservedSystemCPUs: 0-99}", "reserved"),
        ("classes: {blockio: {slow: {capacity: 0}}}", "`int` >= 1"),
        ("classes: {blockio: {'a b': {}}}", "classes.a b: "),
        ("devices: {gpu: 1}", "devices.gpu: not the name of an extended resource"),
        ("devices: {example.com/gpu: -1}", "`int` >= 0"),
        ("[", "not YAML"),
    ],
)
def test_invalid_node_sizes_are_refused_with_their_field(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(BadNodeConfig) as refused:
        model_of(read_config(path))
    assert told in str(refused.value)
    up = ["up", "--runtime", "sim", "--data-dir", str(tmp_path / "data"), "--sim-node-config", str(path)]
    assert main(up) == 2
    assert capsys.readouterr().err.startswith(f"error: --sim-node-config: {path}: ")
    assert not (tmp_path / "data").exists()


def test_a_scenario_refuses_them_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("name: x\ncities: {DFW: 1}\nsteps: []\nnodeConfig: {kubelet: {port: 3}}\n")
    assert main(["sim", str(path)]) == 2
    assert "nodeConfig: kubelet.port: does not decide about sizes" in capsys.readouterr().err


GPU = "datumcloud.com/nvidia-h200"


def test_unhealthy_devices_are_in_the_capacity_and_not_allocatable() -> None:
    broken = model_of(SimNodeConfig(devices={GPU: 4}, unhealthy_devices={GPU: 3}))

    async def story(stage: Stage) -> None:
        status = (await stage.node("dfw-0"))["status"]
        assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("4", "1")

    play(story, models={"dfw": broken})


def test_an_unknown_driver_leaves_gpus_to_runc_and_says_so() -> None:
    unknown = model_of(SimNodeConfig(devices={GPU: 4}, gpu_driver="unknown"))

    async def story(stage: Stage) -> None:
        node = await stage.node("dfw-0")
        [condition] = [each for each in node["status"]["conditions"] if each["type"] == "GPUsSandboxable"]
        assert (condition["status"], condition["reason"]) == ("False", "DriverUnknown")
        assert "gvisor-nvidia" not in {each["name"] for each in node["status"]["runtimeHandlers"]}
        assert node_devices(node).handlers == {"", "runc"}
        healthy = await stage.node("lhr-0")
        [condition] = [each for each in healthy["status"]["conditions"] if each["type"] == "GPUsSandboxable"]
        assert (condition["status"], condition["reason"]) == ("True", "DriverKnown")
        assert "gvisor-nvidia" in node_devices(healthy).handlers

    play(story, models={"dfw": unknown})


def test_more_unhealthy_devices_than_there_are_is_rejected() -> None:
    with pytest.raises(BadNodeConfig, match=r"unhealthyDevices.*3 of 2; write at most as many"):
        model_of(SimNodeConfig(devices={GPU: 2}, unhealthy_devices={GPU: 3}))
