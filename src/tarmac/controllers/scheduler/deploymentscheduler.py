"""Assigns a Location to each WorkloadDeployment, once, and writes it into the deployment's status.

A deployment that no Location can take is retried whenever a Location changes. A deployment whose Location was forcibly
removed is assigned again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.workload import Placement, WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import with_condition
from tarmac.api.shared import Condition, LocationReference
from tarmac.client.cache import Item
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.typed import DEPLOYMENTS, LOCATIONS, WORKLOADS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.indexes import BY_LOCATION, assigned_location
from tarmac.controllers.places import Places
from tarmac.controllers.scheduler.schedulerstate import SchedulerState
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.placement import LocationView, location_for
from tarmac.decide.scheduling import free_at
from tarmac.decide.verdict import Verdict

MANAGER = "tarmac-scheduler"
BY_WORKLOAD = "workload"
UNASSIGNED, ANYWHERE = "unassigned", "*"  # an index by city, and its value for all cities
# owned by the scheduler; `Available` and `Progressing` are rolled up from it and other conditions
SCHEDULED = "Scheduled"


class DeploymentScheduler:
    """Reconciles by the deployment's key."""

    def __init__(self, context: ControllerContext, state: SchedulerState) -> None:
        informers = context.informers
        self._clock = context.client.clock
        self._recorder = context.recorder
        self._state = state
        self._deployments = context.client.resource(DEPLOYMENTS)
        self._known = informers.informer(DEPLOYMENTS)
        self._known.add_index(BY_LOCATION, assigned_location)
        self._known.add_index(UNASSIGNED, _unassigned)
        self._known.add_index(BY_WORKLOAD, _workload_of)
        self._workloads = informers.informer(WORKLOADS)
        self._locations = informers.informer(LOCATIONS)
        self._places = Places(self._locations, leaving=False)
        self._controller = context.controller("deployment-scheduler", self.reconcile)
        self._controller.watches(self._known)
        self._controller.awaits(self._locations)
        self._places.on_change(self._place_changed)
        self._locations.on_change(self._location_removed)
        self._controller.awaits(self._workloads)
        self._workloads.on_change(self._workload_changed)
        for informer in state.informers:
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _place_changed(self, old: LocationView | None, new: LocationView | None) -> None:
        """Retry deployments that wait for a Location of the city.

        The first and the last Location concern all cities.
        """
        cities = {place.city for place in (old, new) if place is not None}
        for value in (ANYWHERE,) if len(self._places.all) < 2 else cities:
            for each in self._known.indexed(UNASSIGNED, value):
                self._controller.queue.add(each.key)

    def _location_removed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Retry deployments assigned to a deleted Location. They kept it while it was being deleted."""
        if new is None and old is not None:
            for each in self._known.indexed(BY_LOCATION, old.metadata.name):
                self._controller.queue.add(each.key)

    def _workload_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Retry a Workload's deployments when its spec changes. Its status changes often and does not matter."""
        if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
            for each in self._known.indexed(BY_WORKLOAD, new.metadata.uid):
                self._controller.queue.add(each.key)

    async def reconcile(self, key: str) -> None:
        """Assign a Location to one deployment."""
        deployment = self._known.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return
        given = deployment.status.location if deployment.status is not None else None
        if given is not None and given.name in self._locations.cache:
            return
        placement = self._placement(deployment)
        if placement is None:
            return  # the Workload or this placement is being removed, and the deployment with it
        verdict = location_for(placement, deployment.spec.city_code, self._candidates(deployment.spec.city_code))
        await self._write(deployment, verdict)

    def _placement(self, deployment: WorkloadDeployment) -> Placement | None:
        wanted = deployment.spec.workload_ref
        workload = self._workloads.get(f"{deployment.metadata.namespace}/{wanted.name}")
        # By uid: a deployment of an earlier Workload of the name is about to be deleted.
        if workload is None or workload.metadata.uid != wanted.uid:
            return None
        name = deployment.spec.placement_name
        return next((each for each in workload.spec.placements if each.name == name), None)

    def _candidates(self, city: str) -> Mapping[str, Collection[LocationView]]:
        """Return places by city. Free resources are summed only where there is a choice."""
        here = self._places.by_city.get(city, ())
        if len(here) < 2:
            return self._places.by_city
        return {city: [replace(place, free=free_at(self._state.cluster, place.name)) for place in here]}

    async def _write(self, deployment: WorkloadDeployment, verdict: Verdict[str]) -> None:
        known = deployment.status or WorkloadDeploymentStatus()
        condition = _condition(verdict)
        condition.observed_generation = deployment.metadata.generation
        status = msgspec.structs.replace(
            known,
            location=LocationReference(verdict.value) if verdict.value is not None else None,
            conditions=with_condition(known.conditions, condition, self._clock.now()),
        )
        written = await write_status(self._deployments, deployment.metadata, deployment.status, status, MANAGER)
        if written is not None and verdict.value is None:
            self._record(deployment, condition)

    def _record(self, deployment: WorkloadDeployment, condition: Condition) -> None:
        owner = deployment.spec.workload_ref
        about = InvolvedObject(API_VERSION, "Workload", owner.name, deployment.metadata.namespace, owner.uid)
        self._recorder.event(about, "Warning", condition.reason, condition.message)


def _condition(verdict: Verdict[str]) -> Condition:
    if verdict.value is not None:
        message = f"Deployment has been assigned Location {verdict.value}."
        return Condition(SCHEDULED, "True", reasons.LOCATION_ASSIGNED, message)
    refusal = verdict.refusals[0]
    return Condition(SCHEDULED, "False", refusal.reason, refusal.message)


def _unassigned(item: Item[WorkloadDeployment]) -> tuple[str, ...]:
    return () if assigned_location(item) else (ANYWHERE, item.object.spec.city_code)


def _workload_of(item: Item[WorkloadDeployment]) -> tuple[str, ...]:
    return (item.object.spec.workload_ref.uid,)
