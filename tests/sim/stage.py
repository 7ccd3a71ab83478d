"""A small planet for tests: a server, its nodes and a user, in virtual time and without faults."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NODES as NODE_OBJECTS
from tarmac.client.targets.untyped import PODS, SERVICE_ACCOUNTS
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.settings import Behaviour, SimLocation

PLACES = (SimLocation("dfw", "DFW", 2), SimLocation("lhr", "LHR", 1))


class Stage:
    """The server, its nodes and clients of a test."""

    def __init__(self, made: SimWorld, fleet: SimulatedNodes) -> None:
        self.world = made
        self.fleet = fleet
        self.user: Client = made.reliable()
        self.pods = self.user.resource(PODS)

    async def wait(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    async def place(self, name: str, node: str = "dfw-0", spec: JsonObject | None = None, **metadata: Any) -> None:
        """Create a pod that is bound already."""
        made = pod(name, **metadata)
        await self.pods.create({**made, "spec": {**made["spec"], **(spec or {})}})
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        await self.pods.create(binding, namespace="default", name=name, subresource="binding")

    async def pod(self, name: str) -> JsonObject:
        return await self.pods.get(name, "default")

    async def phase(self, name: str) -> str:
        return (await self.pod(name))["status"]["phase"]

    async def state(self, name: str) -> JsonObject:
        """Return the state of its only container."""
        return (await self.pod(name))["status"]["containerStatuses"][0]

    async def node(self, name: str) -> JsonObject:
        return await self.user.resource(NODE_OBJECTS).get(name)

    def really_running(self) -> list[tuple[str, str]]:
        """Return (node, pod) of running processes, independent of the API."""
        return sorted((each.node, each.name) for each in self.fleet.pods() if each.runs)


def pod(name: str, image: str = "example.com/app:1", **metadata: Any) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"containers": [{"name": "main", "image": image}], "tolerations": [{"operator": "Exists"}]},
    }


def play(
    story: Callable[[Stage], Coroutine[Any, Any, None]],
    behaviour: Behaviour | None = None,
    models: Mapping[str, NodeModel] | None = None,
) -> None:
    """Run a story to its end."""

    async def main(loop: VirtualLoop) -> None:
        luck = FaultInjector(Randomness(1))
        luck.stop()
        async with world(loop, 1, luck) as made:
            await (
                made.reliable()
                .resource(SERVICE_ACCOUNTS)
                .create(
                    {
                        "apiVersion": "v1",
                        "kind": "ServiceAccount",
                        "metadata": {"name": "default", "namespace": "default"},
                    }
                )
            )
            fleet = SimulatedNodes(made.client("nodes", made.link(NODES)), PLACES, models=models, behaviour=behaviour)
            async with background(fleet.run(), "simulated nodes"):
                await fleet.registered()
                await story(Stage(made, fleet))

    run(main)
