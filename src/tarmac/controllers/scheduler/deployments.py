"""WorkloadDeployment → Location: the choice is made once, and written into the deployment's status.

A deployment that no Location can take keeps trying: it is looked at again whenever a Location changes. One whose
Location was removed by force is without one again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.workload import Placement, WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import find, with_condition
from tarmac.api.shared import Condition, LocationReference
from tarmac.base.clock import parse_rfc3339
from tarmac.client.cache import Item
from tarmac.client.events import InvolvedObject
from tarmac.client.targets.typed import DEPLOYMENTS, LOCATIONS, WORKLOADS
from tarmac.controllers.context import Context
from tarmac.controllers.indexes import BY_LOCATION, assigned_location
from tarmac.controllers.scheduler.state import SchedulerState
from tarmac.controllers.writing import write_status
from tarmac.decide import reasons
from tarmac.decide.placement import Place, by_city, location_for, place_of
from tarmac.decide.scheduling import free_at
from tarmac.decide.verdict import Verdict

MANAGER = "tarmac-scheduler"
BY_WORKLOAD = "workload"
UNASSIGNED = "unassigned"
SCHEDULED = "Scheduled"  # the scheduler's own condition; `Available` and `Progressing` are rolled up from it and others


class DeploymentScheduler:
    """Reconciles by the deployment's key."""

    def __init__(self, context: Context, state: SchedulerState) -> None:
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
        self._controller = context.controller("deployment-scheduler", self.reconcile)
        self._controller.watches(self._known)
        self._controller.watches(self._locations, self._concerned)
        self._controller.watches(self._workloads, self._of_workload)
        for informer in state.informers:
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _concerned(self, item: Item[Any]) -> list[str]:
        """Whom a change of a Location may matter to."""
        waiting = self._known.indexed(UNASSIGNED, UNASSIGNED)
        return [each.key for each in (*waiting, *self._known.indexed(BY_LOCATION, item.metadata.name))]

    def _of_workload(self, item: Item[Any]) -> list[str]:
        return [each.key for each in self._known.indexed(BY_WORKLOAD, item.metadata.uid)]

    async def reconcile(self, key: str) -> None:
        """Give one deployment its Location."""
        deployment = self._known.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            return
        given = deployment.status.location if deployment.status is not None else None
        if given is not None and given.name in self._locations.cache:
            return
        placement = self._placement(deployment)
        if placement is None:
            return  # the Workload or this part of it is going, and the deployment with it
        verdict = location_for(placement, deployment.spec.city_code, by_city(self._places()))
        await self._write(deployment, verdict)

    def _placement(self, deployment: WorkloadDeployment) -> Placement | None:
        wanted = deployment.spec.workload_ref
        workload = self._workloads.get(f"{deployment.metadata.namespace}/{wanted.name}")
        if workload is None or workload.metadata.uid != wanted.uid:
            return None
        name = deployment.spec.placement_name
        return next((each for each in workload.spec.placements if each.name == name), None)

    def _places(self) -> Iterable[Place]:
        """Every Location that is to stay."""
        for item in self._locations.cache.items():
            location = item.object
            if location.metadata.deletion_timestamp is None:
                ready = find(location.status.conditions if location.status else (), "Ready")
                since = parse_rfc3339(ready.last_transition_time) if ready and ready.last_transition_time else 0.0
                yield place_of(location, since, free_at(self._state.cluster, location.metadata.name))

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
            self._tell(deployment, condition)

    def _tell(self, deployment: WorkloadDeployment, condition: Condition) -> None:
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
    return () if assigned_location(item) else (UNASSIGNED,)


def _workload_of(item: Item[WorkloadDeployment]) -> tuple[str, ...]:
    return (item.object.spec.workload_ref.uid,)
