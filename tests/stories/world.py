"""The world of a story: an API server, cities with simulated nodes, and their user.

The story opens cities, each with its Location and its nodes. All its objects are in a namespace of its own, and `clear`
removes the rest, so that many stories can run on one server.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

from tarmac.api.compute.explanations import Explanation
from tarmac.api.compute.names import LABEL_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.base.tasks import background
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.why import explain
from tarmac.client.client import Client
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.targets.target import Target
from tarmac.client.targets.typed import MACHINE_IMAGES
from tarmac.client.targets.untyped import (
    DEPLOYMENTS,
    INSTANCES,
    LEASES,
    LOCATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    WORKLOADS,
)
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.locationobjects import LEASE_NAMESPACE, location
from tarmac.sim.nodes.settings import Behaviour, HeartbeatSettings, SimLocation
from tests.stories.manifests import SANDBOX, Sort

Check = Callable[[], Awaitable[bool]]


@dataclass(frozen=True)
class Pace:
    """The timing of a setting, in seconds of its own clock."""

    poll: float
    patience: float  # the longest time for any step
    heartbeat: HeartbeatSettings
    behaviour: Behaviour


UNHURRIED = Pace(0.5, 1800.0, HeartbeatSettings(), Behaviour())
QUICK = Pace(
    0.05,
    30.0,
    HeartbeatSettings(0.4, 2.0),
    Behaviour(start=(0.02, 0.1), stop=(0.01, 0.05), backoff=(0.5, 2.0), boot=0.1),
)


class World:
    """The API and the simulated nodes of a story."""

    def __init__(
        self,
        client: Client,
        nodes: Client,
        namespace: str,
        pace: Pace,
        load: dict[str, float],
        sort: Sort = SANDBOX,
    ) -> None:
        self.client = client
        self.sort = sort
        self.load = load  # by city: the value of the metric requests_per_second
        self.namespace = namespace
        self.workloads = client.resource(WORKLOADS)
        self.deployments = client.resource(DEPLOYMENTS)
        self.instances = client.resource(INSTANCES)
        self.pods = client.resource(PODS)
        self.nodes = client.resource(NODES)
        self.quotas = client.resource(RESOURCE_QUOTAS)
        self.locations = client.resource(LOCATIONS)
        self._nodes_client = nodes
        self._pace = pace
        self._cities: set[str] = set()
        self._fleets: dict[str, SimulatedNodes] = {}  # by city
        self._stack = AsyncExitStack()

    async def begin(self) -> None:
        """Create a namespace for the story."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.client.resource(NAMESPACES).create(namespace)
        for image in self.sort.catalogue():
            await self.client.resource(MACHINE_IMAGES.unread).create(image)

    # Cities.

    async def open(self, *cities: str, nodes: int = 2) -> None:
        """Create cities with a Location and nodes each. Returns when the Locations are ready."""
        for city in cities:
            await self.announce(city)
        for city in cities:
            await self.build(city, nodes)

    async def announce(self, city: str) -> None:
        """Create a city with a Location without nodes."""
        await self.locations.create(location(SimLocation(city.lower(), city, 0)))
        self._cities.add(city)

    async def build(self, city: str, nodes: int = 2) -> None:
        """Create nodes for a city. Returns when its Location is ready."""
        pace = self._pace
        fleet = SimulatedNodes(
            self._nodes_client,
            [SimLocation(city.lower(), city, nodes)],
            behaviour=pace.behaviour,
            heartbeat=pace.heartbeat,
        )
        self._fleets[city] = fleet
        await self._stack.enter_async_context(background(fleet.run(), "simulated nodes"))
        await self.until(lambda: self._is_ready(city), f"Location {city.lower()} is ready")

    async def _is_ready(self, city: str) -> bool:
        return condition(await self.locations.get(city.lower()), "Ready").get("status") == "True"

    async def _is_lost(self, city: str) -> bool:
        return not await self._is_ready(city)

    def lose_node(self, name: str) -> None:
        """The node loses power, for good."""
        next(fleet for fleet in self._fleets.values() if name in fleet.nodes).die(name)

    async def lose_city(self, city: str) -> None:
        """The city is partitioned. Returns when the platform has noticed."""
        for name in self._fleets[city].nodes:
            self._fleets[city].cut(name)
        await self.until(lambda: self._is_lost(city), f"{city} is lost")

    async def find_city(self, city: str) -> None:
        """The partition ends. Returns when the platform has noticed."""
        for name in self._fleets[city].nodes:
            self._fleets[city].heal(name)
        await self.until(lambda: self._is_ready(city), f"{city} is back")

    # Time.

    async def until(self, check: Check, what: str) -> None:
        """Let time pass until something holds."""
        clock = self.client.clock
        deadline = clock.monotonic() + self._pace.patience
        while not await check():
            if clock.monotonic() > deadline:
                raise AssertionError(f"not within {self._pace.patience} s: {what}\n{await self.picture()}")
            await clock.sleep(self._pace.poll)

    async def picture(self) -> str:
        """Return the state of the story's objects, as a help when a test fails."""
        lines: list[str] = []
        for resource in (self.workloads, self.deployments, self.instances, self.pods):
            for each in await self.all(resource):
                status = each.get("status") or {}
                says = status.get("summary") or status.get("phase")
                reasons = [
                    f"{one['type']}={one['status']}/{one.get('reason', '')}: {one.get('message', '')}"
                    for one in status.get("conditions") or ()
                ]
                lines.append(f"{resource.target.kind} {each['metadata']['name']} {says} {reasons}")
        return "\n".join(lines)

    # Actions of the user.

    async def apply(self, manifest: JsonObject) -> None:
        """Apply as `kubectl apply --server-side` would, with the runtime block of the story's kind."""
        written = self.sort.written(with_namespace(manifest, self.namespace))
        await self.workloads.apply(written, manager="somebody", force=True)

    async def edit(self, name: str, change: Callable[[JsonObject], None]) -> None:
        """Edit as `kubectl edit` would."""
        while True:
            found = await self.workload(name)
            change(found["spec"])
            with suppress(Conflict):
                await self.workloads.update(found)
                return

    async def limit(self, hard: JsonObject) -> None:
        """Create a quota for everything in the namespace."""
        metadata = {"name": "limit", "namespace": self.namespace}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
        await self.quotas.apply(quota, manager="somebody", force=True)

    async def workload(self, name: str = "web") -> JsonObject:
        """Return the current Workload."""
        return await self.workloads.get(name, self.namespace)

    async def status(self, name: str = "web") -> JsonObject:
        """Return the status of the Workload; empty while there is none."""
        return (await self.workload(name)).get("status") or {}

    async def all(self, resource: ResourceClient[JsonObject], **labels: str) -> list[JsonObject]:
        """Return every object of a kind that the story has, by name."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = (await resource.list(self.namespace, labels=selector)).items
        return sorted(found, key=lambda each: each["metadata"]["name"])

    async def instances_in(self, city: str) -> list[JsonObject]:
        """Return the instances of a city."""
        return await self.all(self.instances, **{LABEL_CITY_CODE: city})

    async def deployment_in(self, city: str) -> JsonObject:
        """Return the deployment of a city."""
        (found,) = await self.all(self.deployments, **{LABEL_CITY_CODE: city})
        return found

    async def settled(self, ready: int, name: str = "web") -> JsonObject:
        """Wait until the Workload reports so many complete instances of its newest spec."""

        async def check() -> bool:
            found = await self.workload(name)
            status = found.get("status") or {}
            return (
                status.get("observedGeneration") == found["metadata"]["generation"]
                and condition(found, "Progressing").get("reason") == "Complete"
                and (status["readyReplicas"], status["updatedReplicas"], status["replicas"]) == (ready,) * 3
            )

        await self.until(check, f"{name} has {ready} ready instances of its newest revision and no others")
        return await self.workload(name)

    async def stuck(self, reason: str, name: str = "web") -> Explanation:
        """Wait until the Workload reports this reason for its stop; return the explanation of `tarmac why`."""

        async def check() -> bool:
            return ((await self.status(name)).get("summary") or {}).get("reason") == reason

        await self.until(check, f"{name} is held up by {reason}")
        return await self.why(name)

    async def why(self, name: str = "web") -> Explanation:
        """Run `tarmac why workload/NAME`. The explanation must be complete."""
        out, err = io.StringIO(), io.StringIO()
        found = await explain(self.client, WORKLOADS, self.namespace, name, Console(out, err))
        assert not err.getvalue()
        return found

    async def gone(self, resource: ResourceClient[JsonObject], name: str) -> bool:
        """Return true if there is no object of this name."""
        namespace = self.namespace if resource.target.namespaced else ""
        with suppress(NotFound):
            await resource.get(name, namespace)
            return False
        return True

    # Clean-up.

    async def clear(self) -> None:
        """Delete the rest of the story's objects."""
        for each in await self.all(self.workloads):
            with suppress(NotFound):
                await self.workloads.delete(each["metadata"]["name"], self.namespace)
        await self.until(self._nothing_left, "nothing is left of the story")
        await self._stack.aclose()
        for fleet in self._fleets.values():
            for name in fleet.nodes:
                await self._remove(NODES, name)
                await self._remove(LEASES, name, LEASE_NAMESPACE)
        for city in self._cities:
            await self._remove(LOCATIONS, city.lower())
        await self._remove(NAMESPACES, self.namespace)
        for image in self.sort.catalogue():
            await self._remove(MACHINE_IMAGES.unread, image["metadata"]["name"])

        async def closed() -> bool:
            return all([await self.gone(self.locations, city.lower()) for city in self._cities])

        await self.until(closed, "its Locations are gone")

    async def _nothing_left(self) -> bool:
        kinds = (self.workloads, self.deployments, self.instances, self.pods)
        return not any([await self.all(each) for each in kinds])

    async def _remove(self, target: Target[Any], name: str, namespace: str = "") -> None:
        with suppress(NotFound):
            await self.client.resource(target).delete(name, namespace)


def with_namespace(manifest: JsonObject, namespace: str) -> JsonObject:
    """The manifest, in a namespace."""
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def condition(obj: JsonObject, kind: str) -> JsonObject:
    """A condition of an object; empty when there is none."""
    found = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})
