"""Scales every deployment with metrics, once per period.

The number is written only through `/scale`, so no field of another writer is touched, and none resets it. Earlier
recommendations are kept in memory; after a start the present number counts as recommended, so a restart never scales
down at once. A deployment that is paused, stopped, being deleted or without a Location is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tarmac.api.compute.names import API_VERSION, LABEL_DEPLOYMENT_UID
from tarmac.api.compute.workload import WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import with_condition
from tarmac.api.shared import Condition, ObjectMeta
from tarmac.api.status import Conflict
from tarmac.client.cache import by_label
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.typed import DEPLOYMENTS, INSTANCE_TYPES, INSTANCES, LOCATIONS
from tarmac.controllers.autoscaler.metricsclient import ServedMetrics
from tarmac.controllers.autoscaler.readings import Readings
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.writes import write_status
from tarmac.decide import reasons
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.instances import read_instance
from tarmac.decide.powerstate import is_stopped
from tarmac.decide.scaling import History, Reading, ScaleDecision, scale
from tarmac.decide.scaling.metricstatus import reported_scaling
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-autoscaler"
READY, LIMITED = "AutoscalingReady", "AutoscalingLimited"
BY_DEPLOYMENT = "deployment"
_UNREAD = (reasons.METRICS_UNAVAILABLE, reasons.TOO_FEW_METRICS)
_LIMITS = (reasons.TOO_MANY_REPLICAS, reasons.TOO_FEW_REPLICAS, reasons.SCALE_RATE_LIMITED)


@dataclass(slots=True)
class _ScalingState:
    """The state of a deployment kept between two passes."""

    uid: str
    history: History
    last_pass: float
    reported: set[str] = field(default_factory=set[str])


class AutoscalerController:
    """Reconciles by the deployment's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._url = context.settings.metrics_url
        self._period = context.settings.autoscaling_period
        self._source = context.metrics_source or ServedMetrics(client)
        self._deployments = client.resource(DEPLOYMENTS)
        self._scales = client.resource(dynamic(API_VERSION, "workloaddeployments", "Scale"))
        self._known = informers.informer(DEPLOYMENTS)
        self._instances = informers.informer(INSTANCES)
        self._instances.add_index(BY_DEPLOYMENT, by_label(LABEL_DEPLOYMENT_UID))
        self._locations = informers.informer(LOCATIONS)
        self._types = informers.informer(INSTANCE_TYPES)
        self._states: dict[str, _ScalingState] = {}  # by key
        self._controller = context.controller("autoscaler", self.reconcile)
        self._controller.watches(self._known)
        for informer in (self._instances, self._locations, self._types):
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._controller.run()
        finally:
            await self._source.close()

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Scale one deployment if its period is over; return when the next pass is due."""
        deployment = self._known.get(key)
        if deployment is None or not deployment.spec.scale_settings.metrics:
            self._states.pop(key, None)
            await self._withdraw(deployment)
            return None
        if not _is_scaled(deployment):
            return RetryAfter(self._period)
        state, now = self._remembered(key, deployment), self._clock.monotonic()
        if now < state.last_pass + self._period:
            return RetryAfter(state.last_pass + self._period - now)
        readings = await self._read(deployment, state)
        outcome = scale(deployment.spec.scale_settings, readings, _current(deployment), state.history, now)
        state.history = outcome.history
        metadata = await self._act(deployment, outcome, state)
        # Not before the write: after a conflict the pass is repeated at once, and not one period later.
        state.last_pass = now
        await self._write_status(deployment, metadata, outcome, readings)
        return RetryAfter(self._period)

    def _remembered(self, key: str, deployment: WorkloadDeployment) -> _ScalingState:
        uid, state = deployment.metadata.uid, self._states.get(key)
        # A deployment made again under the name is another one: its predecessor's history must not scale it.
        if state is None or state.uid != uid:
            now = self._clock.monotonic()
            state = self._states[key] = _ScalingState(uid, History.begin(_current(deployment), now), now - self._period)
        return state

    async def _read(self, deployment: WorkloadDeployment, state: _ScalingState) -> list[Reading]:
        items = self._instances.indexed(BY_DEPLOYMENT, deployment.metadata.uid)
        requests = instance_amounts(deployment.spec.template.spec.runtime, self._types.get) or {}
        instances = [read_instance(item.raw) for item in items]
        # Names are reused: a new Instance must not inherit that its predecessor has reported.
        state.reported &= {instance.name for instance in instances}
        now = self._clock.now()
        readings = Readings(self._source, deployment, instances, requests, state.reported, now)
        return await readings.all(deployment.spec.scale_settings.metrics, self._url_for(deployment))

    def _url_for(self, deployment: WorkloadDeployment) -> str:
        """Return the Prometheus of the deployment's Location, otherwise the default one."""
        status = deployment.status
        reference = status.location if status is not None else None
        location = self._locations.get(reference.name) if reference is not None else None
        return (location.spec.metrics_url if location is not None else "") or self._url

    async def _act(self, deployment: WorkloadDeployment, outcome: ScaleDecision, state: _ScalingState) -> ObjectMeta:
        """Write the number if it changes. Return the deployment's metadata afterwards. Raises Conflict."""
        current, own = _current(deployment), deployment.metadata
        if outcome.replicas == current:
            return own
        # Conditional: a user may have scaled the deployment since the readings, and that number wins.
        patch = {"metadata": {"resourceVersion": own.resource_version}, "spec": {"replicas": outcome.replicas}}
        written = await self._scales.patch(own.name, patch, own.namespace, subresource="scale", manager=MANAGER)
        # After the write only: a change that was never made must not count against the rate limits.
        state.history = outcome.history.with_change(current, outcome.replicas, self._clock.monotonic())
        # The status write that follows is conditional. With the version from before our own write it would conflict.
        return msgspec.structs.replace(own, resource_version=written["metadata"]["resourceVersion"])

    async def _write_status(
        self, deployment: WorkloadDeployment, metadata: ObjectMeta, outcome: ScaleDecision, readings: Sequence[Reading]
    ) -> None:
        known, settings = deployment.status or WorkloadDeploymentStatus(), deployment.spec.scale_settings
        scaling = reported_scaling(
            settings, readings, _current(deployment), outcome.replicas, known.scaling, self._clock.now()
        )
        conditions = known.conditions
        for condition in (_ready(outcome.refusals), _limited(outcome.refusals)):
            condition.observed_generation = metadata.generation
            conditions = with_condition(conditions, condition, self._clock.now())
        status = msgspec.structs.replace(known, conditions=conditions, scaling=scaling)
        try:
            await write_status(self._deployments, metadata, deployment.status, status, MANAGER)
        except Conflict:
            return  # the number is written; the next pass writes the status

    async def _withdraw(self, deployment: WorkloadDeployment | None) -> None:
        """Remove the conditions and status of a deployment that no longer scales by metrics."""
        if deployment is None or deployment.status is None:
            return
        kept = [each for each in deployment.status.conditions if each.type not in (READY, LIMITED)]
        if len(kept) != len(deployment.status.conditions) or deployment.status.scaling is not None:
            status = msgspec.structs.replace(deployment.status, conditions=kept, scaling=None)
            await write_status(self._deployments, deployment.metadata, deployment.status, status, MANAGER)


def _is_scaled(deployment: WorkloadDeployment) -> bool:
    placed = deployment.status is not None and deployment.status.location is not None
    going = deployment.metadata.deletion_timestamp is not None
    return placed and not deployment.spec.paused and not going and not is_stopped(deployment.spec.template.spec)


def _current(deployment: WorkloadDeployment) -> int:
    """Return the number wanted now, before bounds are applied."""
    replicas = deployment.spec.replicas
    return deployment.spec.scale_settings.min_replicas if replicas is None else replicas


def _ready(refusals: tuple[Refusal, ...]) -> Condition:
    unread = [refusal for refusal in refusals if refusal.reason in _UNREAD]
    if unread:
        return Condition(READY, "False", unread[0].reason, "; ".join(refusal.message for refusal in unread))
    return Condition(READY, "True", reasons.AUTOSCALER_READY, "Every metric could be read.")


def _limited(refusals: tuple[Refusal, ...]) -> Condition:
    limit = next((refusal for refusal in refusals if refusal.reason in _LIMITS), None)
    if limit is not None:
        return Condition(LIMITED, "True", limit.reason, limit.message)
    return Condition(LIMITED, "False", reasons.WITHIN_SCALING_LIMITS, "The number follows the metrics.")
