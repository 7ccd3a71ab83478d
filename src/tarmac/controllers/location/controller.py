"""Writes each Location's status from its nodes, and delays the deletion of a Location in use.

A deployment uses the Location that the scheduler assigned to it.
"""

from __future__ import annotations

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.conditions import with_condition
from tarmac.api.networking.location import Location, LocationStatus
from tarmac.api.networking.names import LOCATION_FINALIZER
from tarmac.api.shared import Condition, Summary
from tarmac.client.cache import Item
from tarmac.client.targets.typed import DEPLOYMENTS, LOCATIONS
from tarmac.client.targets.untyped import NODES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.finalizers import hold
from tarmac.controllers.indexes import BY_LOCATION, assigned_location
from tarmac.controllers.location.nodecounts import NodesByLocation, location_of
from tarmac.controllers.writes import write_status
from tarmac.decide.health import Health, place_health

MANAGER = "tarmac-location"
_WORDS = {"True": "Available", "False": "Degraded", "Unknown": "Degraded"}


class LocationController:
    """Reconciles by the Location's name."""

    def __init__(self, context: ControllerContext) -> None:
        informers = context.informers
        self._clock = context.client.clock
        self._locations = context.client.resource(LOCATIONS)
        self._known = informers.informer(LOCATIONS)
        self._deployments = informers.informer(DEPLOYMENTS)
        self._deployments.add_index(BY_LOCATION, assigned_location)
        nodes = informers.informer(NODES)
        self._nodes_by_location = NodesByLocation(nodes)
        self._controller = context.controller("location", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(nodes, location_of)
        self._controller.awaits(self._deployments)
        self._deployments.on_change(self._deployment_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _deployment_changed(self, old: Item[WorkloadDeployment] | None, new: Item[WorkloadDeployment] | None) -> None:
        """Requeue a Location when a deployment is assigned to it or leaves it.

        Status changes of deployments do not matter.
        """
        before, after = (set(assigned_location(item)) if item is not None else set() for item in (old, new))
        # Both: the Location that it has left may be deleted now.
        for name in before ^ after:
            self._controller.queue.add(name)

    async def reconcile(self, name: str) -> None:
        """Write one Location's finalizer and status."""
        location = self._known.get(name)
        if location is None:
            return
        used = bool(self._deployments.indexed(BY_LOCATION, name))
        # The finalizer's write changes the version. The status follows in the pass that this change starts.
        if await hold(self._locations, location.metadata, LOCATION_FINALIZER, used=used):
            return
        status = self._observed(location)
        await write_status(self._locations, location.metadata, location.status, status, MANAGER)

    def _observed(self, location: Location) -> LocationStatus:
        nodes, known = self._nodes_by_location.of(location.metadata.name), location.status or LocationStatus()
        ready = nodes.count("True")
        health = place_health(ready, nodes.count("False"), nodes.count("Unknown"))
        total = ready + nodes.count("False") + nodes.count("Unknown")
        return LocationStatus(
            observed_generation=location.metadata.generation,
            conditions=with_condition(known.conditions, _condition(location, health), self._clock.now()),
            nodes=total,
            ready_nodes=ready,
            allocatable=nodes.offered(),
            summary=_summary(health, ready, total),
        )


def _condition(location: Location, health: Health) -> Condition:
    return Condition("Ready", health.status, health.reason, health.message, None, location.metadata.generation)


def _summary(health: Health, ready: int, total: int) -> Summary:
    reason = "" if health.status == "True" else health.reason
    return Summary(ready=f"{ready}/{total}", status=_WORDS[health.status], reason=reason)
