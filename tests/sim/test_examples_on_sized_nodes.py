"""The examples on simulated nodes as examples/nodes/sim-nodes.yaml describes them, and their messages.

Also the RFC's own example of containers: its instances want a GPU each, and these nodes have some.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.manifests import read_manifests
from tarmac.cli.verbs.objectnames import parse_object
from tarmac.cli.verbs.plan import plan
from tarmac.cli.verbs.why import why
from tarmac.client.targets.untyped import LOCATIONS, NETWORKS, PODS, RESOURCE_QUOTAS, WORKLOADS
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.configuration import model_of, read_config
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import SimLocation
from tarmac.sim.simulatedload import SimulatedMetrics

EXAMPLES = Path(__file__).parents[2] / "examples"
PLACES = tuple(SimLocation(city.lower(), city, 3) for city in ("DFW", "SEA", "LHR"))


class Planet:
    """The nodes and the user of a test."""

    def __init__(self, made: SimWorld, fleet: SimulatedNodes) -> None:
        self.fleet = fleet
        self.user = made.reliable()
        self.clock = made.clock

    async def apply(self, manifest: JsonObject) -> None:
        target = {"Network": NETWORKS, "Workload": WORKLOADS}[manifest["kind"]]
        metadata = {"namespace": "default", **manifest["metadata"]}
        await self.user.resource(target).apply({**manifest, "metadata": metadata}, manager="test")

    async def ready(self, name: str, count: int) -> None:
        """Wait until so many instances are ready; assert that no pod was rejected before."""
        status: JsonObject = {}
        for _ in range(120):
            status = (await self.user.resource(WORKLOADS).get(name, "default")).get("status") or {}
            if status.get("readyReplicas") == count:
                break
            await self.clock.sleep(1)
        assert status.get("readyReplicas") == count, status
        assert not self.fleet.happened["refused"]

    async def why(self, what: str) -> str:
        out = io.StringIO()
        target, name = parse_object([what])
        await why(self.user, target, "default", name, Console(out, io.StringIO()), "")
        return " ".join(out.getvalue().split())

    async def plan(self, manifest: Path) -> tuple[int, str]:
        out = io.StringIO()
        code = await plan(self.user, "default", str(manifest), (), Console(out, io.StringIO()), "")
        return code, " ".join(out.getvalue().split())


def on_a_planet(story: Callable[[Planet], Coroutine[Any, Any, None]]) -> None:
    model = model_of(read_config(EXAMPLES / "nodes" / "sim-nodes.yaml"))

    async def main(loop: VirtualLoop) -> None:
        luck = FaultInjector(Randomness(1))
        luck.stop()
        async with AsyncExitStack() as stack:
            made = await stack.enter_async_context(world(loop, 1, luck))
            for place in PLACES:
                await made.reliable().resource(LOCATIONS).apply(location(place), manager="test")
            models = {place.name: model for place in PLACES}
            fleet = SimulatedNodes(made.client("nodes", made.link(NODES)), PLACES, models=models)
            await stack.enter_async_context(background(fleet.run(), "simulated nodes"))
            await fleet.registered()
            replica = made.replica("controllers", SimulatedMetrics(fleet, made.clock))
            replica.start()
            stack.callback(replica.crash)
            await made.clock.sleep(20)
            await story(Planet(made, fleet))

    run(main)


def test_the_example_with_classes_runs_and_why_names_class_and_processors() -> None:
    async def story(planet: Planet) -> None:
        code, text = await planet.plan(EXAMPLES / "workload-classes.yaml")
        assert code == 0, text
        for manifest in read_manifests(str(EXAMPLES / "workload-classes.yaml")):
            await planet.apply(manifest)
        await planet.ready("archive", 6)
        pods = (await planet.user.resource(PODS).list("default")).items
        told = await planet.why(f"pod/{pods[0]['metadata']['name']}")
        assert "container main is in class blockio/slow." in told
        assert "container main has CPUs 2-3 to itself." in told

    on_a_planet(story)


def test_an_instance_too_many_is_told_which_nodes_have_no_place() -> None:
    async def story(planet: Planet) -> None:
        manifest = read_manifests(str(EXAMPLES / "workload-classes.yaml"))[0]
        manifest["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 7
        await planet.apply(manifest)
        await planet.ready("archive", 12)
        await planet.clock.sleep(10)
        told = await planet.why("workload/archive")
        assert "ClassExhausted" in told
        assert "class blockio/slow full" in told
        assert "Class blockio/slow on dfw-0 is full: asked 1, used 2, capacity 2." in told
        assert "free 1 place of class blockio/slow on" in told.lower()

    on_a_planet(story)


def test_a_class_that_no_city_offers_is_refused_by_the_plan_which_names_the_change(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        text = (EXAMPLES / "workload-classes.yaml").read_text().replace("/default: slow", "/default: turbo")
        changed = tmp_path / "turbo.yaml"
        changed.write_text(text)
        code, told = await planet.plan(changed)
        assert code == 2
        assert "ClassUnavailable" in told
        assert "no class blockio/turbo" in told
        assert "Ask for one of normal, slow, or offer blockio/turbo on dfw-0." in told

    on_a_planet(story)


def test_an_instance_waits_behind_the_quota_gate_for_its_class() -> None:
    async def story(planet: Planet) -> None:
        listed = [{"name": "blockio", "classes": [{"name": "slow", "capacity": 4}]}]
        metadata = {"name": "classes", "namespace": "default"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
        await planet.user.resource(RESOURCE_QUOTAS).create({**quota, "spec": {"containerClassResources": listed}})
        manifest = read_manifests(str(EXAMPLES / "workload-classes.yaml"))[0]
        await planet.apply(manifest)
        await planet.ready("archive", 4)
        await planet.clock.sleep(30)
        await planet.ready("archive", 4)
        told = await planet.why("workload/archive")
        assert "QuotaExhausted" in told
        assert "Raise class blockio/slow of ResourceQuota classes to 6" in told
        listed[0]["classes"] = [{"name": "slow", "capacity": 6}]
        await planet.user.resource(RESOURCE_QUOTAS).patch(
            "classes", {"spec": {"containerClassResources": listed}}, "default"
        )
        await planet.ready("archive", 6)

    on_a_planet(story)


def test_the_rfcs_example_of_containers_runs_where_nodes_have_its_gpu() -> None:
    async def story(planet: Planet) -> None:
        for manifest in read_manifests(str(EXAMPLES / "workload-containers.yaml")):
            if manifest["kind"] == "Workload":
                for placement in manifest["spec"]["placements"]:  # without a Prometheus the number is fixed
                    placement["scaleSettings"] = {"minReplicas": placement["scaleSettings"]["minReplicas"]}
            await planet.apply(manifest)
        await planet.ready("my-workload", 5 + 5 + 3 + 3)
        pods = (await planet.user.resource(PODS).list("default")).items
        on_nodes = [pod["spec"]["nodeName"] for pod in pods]
        assert max(map(on_nodes.count, on_nodes)) == 2, "two GPUs each"

    on_a_planet(story)
