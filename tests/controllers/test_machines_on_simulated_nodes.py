"""Virtual machines on simulated nodes: built-in images boot without a source, and GPUs are unavailable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tarmac.client.targets.target import dynamic
from tests.controllers import cities
from tests.controllers.planet import Planet, play

EXAMPLE = Path(__file__).parents[2] / "examples" / "virtualmachine-minimum.yaml"
API = "compute.datumapis.com/v1alpha"
WORKLOADS = dynamic(API, "workloads", "Workload")
INSTANCES = dynamic(API, "instances", "Instance")
GPU = "datumcloud.com/nvidia-tesla-a100"


def machine() -> dict[str, Any]:
    return yaml.safe_load(EXAMPLE.read_text())


async def told(planet: Planet) -> list[tuple[str, str, str]]:
    """Return status, reason and message of the instances' readiness."""
    found = (await planet.user.resource(INSTANCES).list("default")).items
    stated = [each for one in found for each in one["status"]["conditions"] if each["type"] == "Ready"]
    return [(each["status"], each["reason"], each["message"]) for each in stated]


def test_the_smallest_machine_boots_though_its_image_has_no_source() -> None:
    async def story(planet: Planet) -> None:
        await planet.user.resource(WORKLOADS).create(machine(), namespace="default")
        await planet.wait(30)
        assert [status for status, _, _ in await told(planet)] == ["True", "True"]

    play(story)


def test_a_machine_that_asks_for_a_gpu_waits_as_on_real_nodes() -> None:
    async def story(town: cities.Cities) -> None:
        for name, runtime in (("machine", "vm"), ("sandbox", "gvisor-nvidia")):
            made = cities.pod(name, runtimeClassName=runtime)
            made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", GPU: "1"}}
            await town.pods.create(made)
        await town.wait(10)
        assert [bool(node) for node in await town.nodes_of("machine", "sandbox")] == [False, True]
        scheduled = cities.condition(await town.pods.get("machine", "default"), "PodScheduled")
        assert "no devices under vm" in scheduled["message"], scheduled

    cities.play("scheduler,node", story)
