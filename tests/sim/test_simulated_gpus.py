"""GPUs of simulated nodes: events, metrics and holders, as a real node reports them."""

from __future__ import annotations

import pytest

from tarmac.agent.stats.summary import metrics_text
from tarmac.api.schema import JsonObject
from tarmac.cli.top.gpus import GpuUsage, parsed
from tarmac.client.targets.untyped import EVENTS
from tarmac.sim.nodes.configuration import BadNodeConfig, SimNodeConfig, model_of
from tarmac.sim.nodes.simgpus import SimulatedGpus
from tests.sim.stage import Stage, play

GPU, A100 = "datumcloud.com/nvidia-h200", "datumcloud.com/nvidia-tesla-a100"


def asking(number: int) -> JsonObject:
    amounts = {"limits": {GPU: str(number)}, "requests": {GPU: str(number)}}
    return {"containers": [{"name": "main", "image": "app", "resources": amounts}]}


def rows(stage: Stage, node: str = "dfw-0", gpus: SimulatedGpus | None = None) -> list[GpuUsage]:
    """The node's GPUs as `tarmac top --gpu` reads them."""
    return parsed(node, metrics_text((gpus or SimulatedGpus()).samples(stage.fleet.nodes[node])))


async def events(stage: Stage) -> list[tuple[str, str]]:
    """Reasons and messages of events of nodes."""
    page = await stage.user.resource(EVENTS).list()
    return sorted((each["reason"], each["message"]) for each in page.items if each["involvedObject"]["kind"] == "Node")


def test_an_unhealthy_gpu_has_an_event_and_its_xid_in_the_metrics() -> None:
    broken = model_of(SimNodeConfig(devices={GPU: 2, A100: 0}, unhealthy_devices={GPU: 1}, gpu_xid=48))

    async def story(stage: Stage) -> None:
        await stage.wait(5)
        message = f"NVIDIA H200 GPU-dfw-0-1 ({GPU}): XID 48: double-bit ECC error"
        assert await events(stage) == [
            ("DeviceUnhealthy", message),
            ("DeviceUnhealthy", message.replace("dfw-0", "dfw-1")),
        ]
        healthy, sick = rows(stage)
        assert (healthy.model, healthy.gpu, healthy.reason, healthy.figures["healthy"]) == ("NVIDIA H200", "0", "", 1)
        assert (sick.gpu, sick.reason) == ("1", "XID 48: double-bit ECC error")
        assert (sick.figures["healthy"], sick.figures["xid_total48"]) == (0, 1)
        assert [row.model for row in rows(stage, "lhr-0")] == ["NVIDIA A100"] * 8

    play(story, models={"dfw": broken})


def test_a_gpu_that_has_fallen_off_the_bus_has_no_figures() -> None:
    async def story(stage: Stage) -> None:
        [row] = rows(stage)
        assert row.reason == "XID 79: GPU has fallen off the bus"
        assert set(row.figures) == {"healthy", "xid_total79"}

    play(story, models={"dfw": model_of(SimNodeConfig(devices={GPU: 1, A100: 0}, unhealthy_devices={GPU: 1}))})


def test_pods_hold_healthy_gpus_until_they_end() -> None:
    model = model_of(SimNodeConfig(devices={GPU: 4, A100: 0}, unhealthy_devices={GPU: 1}))

    async def story(stage: Stage) -> None:
        gpus = SimulatedGpus()

        def found() -> list[tuple[str, bool]]:
            """The pod of each GPU, and whether it is busy."""
            told = rows(stage, gpus=gpus)
            return [(row.pod, row.figures.get("utilization_ratio", 0) > 0) for row in told]

        await stage.place("one", spec=asking(1))
        await stage.wait(5)
        assert found() == [("one", True), ("", False), ("", False), ("", False)]
        await stage.place("two", spec=asking(2))
        await stage.wait(5)
        assert found() == [("one", True), ("two", True), ("two", True), ("", False)]
        await stage.pods.delete("one", "default")
        await stage.wait(40)
        assert found() == [("", False), ("two", True), ("two", True), ("", False)]

    play(story, models={"dfw": model})


def test_an_xid_that_leaves_a_gpu_healthy_is_rejected() -> None:
    with pytest.raises(BadNodeConfig, match="gpuXid: 31 leaves a GPU healthy; write a critical one, such as 79 or 48"):
        model_of(SimNodeConfig(devices={GPU: 1}, unhealthy_devices={GPU: 1}, gpu_xid=31))
