"""Workloads on a small planet in virtual time: a server, the controllers under test, and stand-ins for the rest.

Nodes are simulated; the stand-in for the scheduler gives every deployment the first Location of its city and every Pod
the first node of its Location. Tests can switch both parts off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from tarmac.api.compute.names import API_VERSION
from tarmac.api.identities import controller_user
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Conflict, NotFound
from tarmac.apps.control_plane import CONTROLLING
from tarmac.apps.simworld import SimWorld, world
from tarmac.apps.up import NODES
from tarmac.base.clock import rfc3339
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background
from tarmac.client.client import Client
from tarmac.client.targets.untyped import DEPLOYMENTS, INSTANCES, LOCATIONS, NETWORKS, PODS, WORKLOADS
from tarmac.controllers.manager import CONTROLLERS, ControllerManager
from tarmac.controllers.network.controller import NetworkControllers
from tarmac.server.security.users import User
from tarmac.sim.faults.draws import FaultInjector
from tarmac.sim.faults.link import ServerLink
from tarmac.sim.loop import VirtualLoop, run
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import Behaviour, SimLocation

PLACES = (SimLocation("dfw", "DFW", 2), SimLocation("lhr", "LHR", 2), SimLocation("sea", "SEA", 2))
INSTANCE_MAKER = User(controller_user("deployment"), groups=("system:masters",))
NAMES = "garbage,namespace,serviceaccount,volume,network,quota,workload,deployment,instance"


class Planet:
    """The server, its nodes and clients of a test."""

    def __init__(self, made: SimWorld, fleet: SimulatedNodes) -> None:
        self.world = made
        self.fleet = fleet
        self.user: Client = made.reliable()
        self.locating = self.binding = True  # the two parts of the stand-in for the scheduler
        self.workloads = self.user.resource(WORKLOADS)
        self.deployments = self.user.resource(DEPLOYMENTS)
        self.instances = self.user.resource(INSTANCES)
        self.pods = self.user.resource(PODS)
        self.networks = self.user.resource(NETWORKS)
        self.locations = self.user.resource(LOCATIONS)
        self._manager: asyncio.Task[None] | None = None
        self._link: ServerLink | None = None
        self._runs = 0

    def start(self, names: str = NAMES) -> None:
        """Start a new process of controllers."""
        self._runs += 1
        self._link = self.world.link(CONTROLLING)
        client = self.world.client("controllers", self._link, self._runs)
        known = {**CONTROLLERS, "network": NetworkControllers}
        self._manager = asyncio.create_task(ControllerManager(client, names, controllers=known).run())

    def maker(self) -> Client:
        """Return a client that may create Instances."""
        return self.world.reliable(INSTANCE_MAKER)

    async def stop(self) -> None:
        """End the process."""
        if self._manager is not None:
            self._manager.cancel()
            await asyncio.wait([self._manager])
            self._manager = None

    async def relist(self) -> None:
        """Make the controllers lose their watches and the history to resume them: they list everything again."""
        assert self._link is not None, "no controllers run"
        self._link.mute(True)
        await self.world.store.compact(self.world.store.revision)
        self._link.mute(False)

    async def wait(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    async def until(self, check: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 300) -> None:
        """Let time pass until something holds."""
        for _ in range(int(seconds * 4)):
            if await check():
                return
            await self.wait(0.25)
        raise AssertionError(f"did not become so within {seconds} s")

    async def apply(self, name: str = "web", **changes: Any) -> JsonObject:
        """Create a Workload, and wait for the network that it is attached to."""

        async def check() -> bool:
            return bool(await self.all(self.networks))

        await self.until(check)
        return await self.workloads.create(workload(name, **changes))

    async def edit(self, name: str = "web", **spec: Any) -> None:
        """Replace parts of a Workload's spec."""
        edits = [{"op": "add", "path": f"/spec/{field}", "value": value} for field, value in spec.items()]
        await self.workloads.patch(name, edits, "default", type="json")

    async def gone(self, resource: Any, name: str = "web") -> None:
        """Wait until an object is gone."""

        async def check() -> bool:
            return name not in {each["metadata"]["name"] for each in await self.all(resource)}

        await self.until(check)

    async def versions(self) -> dict[str, str]:
        """The version of every object that controllers write."""
        kinds = (self.workloads, self.deployments, self.instances, self.pods)
        found = [each["metadata"] for kind in kinds for each in await self.all(kind)]
        return {each["uid"]: each["resourceVersion"] for each in found if each["name"] != "web"}

    def really_running(self) -> list[str]:
        """Return the pods with running processes, independent of the API."""
        return sorted(each.name for each in self.fleet.pods() if each.runs)

    async def workload(self, name: str = "web", namespace: str = "default") -> JsonObject:
        return await self.workloads.get(name, namespace)

    async def all(self, resource: Any, namespace: str = "default") -> list[JsonObject]:
        return (await resource.list(namespace)).items

    async def ready(self, count: int, name: str = "web") -> None:
        """Wait until so many instances are ready and the status says so."""

        async def check() -> bool:
            status = (await self.workload(name)).get("status") or {}
            progress = {each["type"]: each.get("reason") for each in status.get("conditions", ())}
            return status.get("readyReplicas", 0) == count and progress.get("Progressing") == "Complete"

        await self.until(check)

    async def open(self, place: SimLocation, ready: bool = True) -> None:
        """Create a Location, ready or not."""
        locations = self.user.resource(LOCATIONS)
        with suppress(AlreadyExists):
            await locations.create(location(place))
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": rfc3339(self.world.clock.now()),
        }
        await locations.patch(place.name, {"status": {"conditions": [condition]}}, subresource="status")

    async def schedule(self) -> None:
        """The stand-in for the scheduler."""
        nodes = {place.name: f"{place.name}-0" for place in PLACES}
        cities = {place.city: place.name for place in PLACES}
        while True:
            await self.wait(0.2)
            for deployment in await self.all(self.deployments, "") if self.locating else ():
                await self._locate(deployment, cities)
            for pod in await self.all(self.pods, "") if self.binding else ():
                location = (pod["spec"].get("nodeSelector") or {}).get(LABEL_LOCATION)
                if location and not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                    await self._bind(pod["metadata"], nodes[location])

    async def _locate(self, deployment: JsonObject, cities: dict[str, str]) -> None:
        own, city = deployment["metadata"], deployment["spec"]["cityCode"]
        if (deployment.get("status") or {}).get("location") or city not in cities:
            return
        patch = {"status": {"location": {"name": cities[city]}}}
        await self.deployments.patch(own["name"], patch, own["namespace"], subresource="status")

    async def _bind(self, own: JsonObject, node: str) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": own["name"]}, "target": {"name": node}}
        try:
            await self.pods.create(binding, namespace=own["namespace"], name=own["name"], subresource="binding")
        except (Conflict, NotFound):
            return


def conditions(obj: JsonObject) -> dict[str, JsonObject]:
    """Return the conditions of an object by type."""
    return {each["type"]: each for each in (obj.get("status") or {}).get("conditions", ())}


def workload(name: str = "web", *, cities: tuple[str, ...] = ("DFW",), replicas: int = 2, **spec: Any) -> JsonObject:
    """Return a Workload with one placement."""
    policy = spec.pop("policy", "OrderedReady")
    image = spec.pop("image", "example.com/app:1")
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "runtime": {
                "resources": {"instanceType": "datumcloud/d1-standard-2"},
                "sandbox": {"containers": [{"name": "main", "image": image, **spec.pop("container", {})}]},
            },
            "networkInterfaces": [{"network": {"name": "default"}}],
            **spec.pop("template", {}),
        },
    }
    settings = {"minReplicas": replicas, "instanceManagementPolicy": policy}
    placement = {"name": "all", "cityCodes": list(cities), "scaleSettings": settings}
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", **spec.pop("metadata", {})},
        "spec": {"template": template, "placements": [placement], **spec},
    }


@asynccontextmanager
async def _planet(loop: VirtualLoop, behaviour: Behaviour | None) -> AsyncGenerator[Planet]:
    luck = FaultInjector(Randomness(1))
    luck.stop()
    async with world(loop, 1, luck) as made:
        fleet = SimulatedNodes(made.client("nodes", made.link(NODES)), PLACES, behaviour=behaviour)
        async with background(fleet.run(), "simulated nodes"):
            await fleet.registered()
            planet = Planet(made, fleet)
            for place in PLACES:
                await planet.open(place)
            planet.start()
            async with background(planet.schedule(), "scheduler"):
                yield planet
                await planet.stop()


def play(story: Callable[[Planet], Coroutine[Any, Any, None]], behaviour: Behaviour | None = None) -> None:
    """Run a story to its end."""

    async def main(loop: VirtualLoop) -> None:
        async with _planet(loop, behaviour) as planet:
            await story(planet)

    run(main)
