"""A planet in virtual time with the controllers a test names: a real server and simulated nodes, without stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.apps.control_plane import CONTROLLING
from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import LOCATIONS, PODS
from tarmac.client.targets.untyped import NODES as NODE_OBJECTS
from tarmac.client.transport import Transport
from tarmac.controllers.context import Settings
from tarmac.controllers.manager import ControllerManager
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import NodeShape, SimLocation

DFW, LHR = SimLocation("dfw", "DFW", 3), SimLocation("lhr", "LHR", 1)
BINDINGS = dynamic(NETWORKING, "networkbindings", "NetworkBinding")
CONTEXTS = dynamic(NETWORKING, "networkcontexts", "NetworkContext")
CLAIMS = dynamic(NETWORKING, "subnetclaims", "SubnetClaim")
SUBNETS = dynamic(NETWORKING, "subnets", "Subnet")


class Cities:
    """The server, its nodes and clients of a test."""

    def __init__(self, made: SimWorld, fleet: SimulatedNodes) -> None:
        self.world = made
        self.fleet = fleet
        self.user: Client = made.reliable()
        self.pods = self.user.resource(PODS)
        self.nodes = self.user.resource(NODE_OBJECTS)
        self.locations = self.user.resource(LOCATIONS)
        self._manager: asyncio.Task[None] | None = None
        self._runs = 0

    def start(
        self, names: str, through: Callable[[Transport], Transport] = lambda link: link, *, way_in: bool = False
    ) -> None:
        """Start a new process of controllers, with a link to the server that may fail."""
        self._runs += 1
        client = self.world.client("controllers", through(self.world.link(CONTROLLING)), self._runs)
        manager = ControllerManager(client, names, settings=Settings(way_in=way_in))
        self.metrics = manager.metrics
        self._manager = asyncio.create_task(manager.run())

    async def stop(self) -> None:
        """End the process."""
        if self._manager is not None:
            self._manager.cancel()
            await asyncio.wait([self._manager])
            if not self._manager.cancelled() and self._manager.exception() is not None:
                raise AssertionError("the controllers failed") from self._manager.exception()
            self._manager = None

    async def wait(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    async def until(self, check: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 60) -> None:
        for _ in range(int(seconds * 4)):
            if await check():
                return
            await self.wait(0.25)
        raise AssertionError(f"did not become so within {seconds} s")

    async def ready(self, resource: ResourceClient[Any], name: str, namespace: str = "") -> JsonObject:
        """Return the Ready condition of an object, once it has one."""
        obj = await resource.get(name, namespace)
        return condition(obj, "Ready")

    async def gone(self, resource: ResourceClient[Any], name: str, namespace: str = "") -> bool:
        try:
            await resource.get(name, namespace)
        except NotFound:
            return True
        return False

    async def nodes_of(self, *names: str) -> list[str]:
        """Return the nodes of pods; empty for one that waits."""
        return [(await self.pods.get(name, "default"))["spec"].get("nodeName", "") for name in names]


def condition(obj: JsonObject, kind: str) -> JsonObject:
    """Return a condition of an object; empty when there is none."""
    found = ((obj.get("status") or {}).get("conditions")) or []
    return next((each for each in found if each["type"] == kind), {})


def pod(name: str, cpu: str = "1", place: str = "", **spec: Any) -> JsonObject:
    """Return a pod to schedule."""
    requests = {"cpu": cpu, "memory": "128Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": spec.pop("labels", {})},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/app:1", "resources": {"requests": requests}}],
            "schedulerName": "tarmac",
            **({"nodeSelector": {LABEL_LOCATION: place}} if place else {}),
            **spec,
        },
    }


def play(
    controllers: str,
    story: Callable[[Cities], Coroutine[Any, Any, None]],
    places: Sequence[SimLocation] = (DFW, LHR),
    shape: NodeShape | None = None,
    *,
    external: bool = False,
    way_in: bool = False,
) -> None:
    """Run a story to its end. Without `external`, the story plays the nodes' part in external services."""

    async def main(loop: VirtualLoop) -> None:
        luck = FaultInjector(Randomness(1))
        luck.stop()
        async with world(loop, 1, luck) as made:
            fleet = SimulatedNodes(made.client("nodes", made.link(NODES)), places, shape=shape, external=external)
            cities = Cities(made, fleet)
            for place in places:
                await cities.locations.create(location(place))
            async with background(fleet.run(), "simulated nodes"):
                await fleet.registered()
                cities.start(f"serviceaccount,garbage,{controllers}", way_in=way_in)
                await cities.wait(1)
                await story(cities)
                await cities.stop()

    run(main)
