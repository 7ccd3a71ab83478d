"""Keeps the Instances of one city as decided: the wanted number, of the newest template, gated until they may start.

Every pass computes its steps from the existing objects, executes all of them and reports. A pass may therefore be
repeated, interrupted or run on a slightly outdated cache. Changes of Instances are debounced, so that a thousand of
them cost a few passes and not a thousand.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.compute.names import FINALIZER, LABEL_DEPLOYMENT_NAME, LABEL_DEPLOYMENT_UID
from tarmac.api.compute.workload import Rollout, WorkloadDeployment
from tarmac.api.conditions import find
from tarmac.api.shared import LocationReference
from tarmac.api.status import NotFound
from tarmac.base.clock import parse_rfc3339
from tarmac.client.controller import RetryAfter
from tarmac.client.targets.typed import DEPLOYMENTS, INSTANCES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.deployment.bindings import DeploymentBindings
from tarmac.controllers.deployment.fleets import Fleets
from tarmac.controllers.deployment.instancewriter import InstanceRefused, InstanceWriter
from tarmac.controllers.deployment.network import DeploymentNetworks
from tarmac.controllers.ipam import Attachment
from tarmac.controllers.ownerlabels import named_by
from tarmac.controllers.writes import set_finalizers, write_status
from tarmac.decide import rollout
from tarmac.decide.rollup import DeploymentFacts, deployment_status
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-deployment"
SCHEDULED = "Scheduled"
DEBOUNCE_SECONDS = 0.05
NETWORK_SECONDS = 5.0
RETRY_SECONDS = 15.0  # where no watch reports the end: a rejection by the server

_OF_DEPLOYMENT = named_by(LABEL_DEPLOYMENT_NAME)


class DeploymentController:
    """Reconciles by the WorkloadDeployment's key."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._deployments = client.resource(DEPLOYMENTS.unread)
        self._known = informers.informer(DEPLOYMENTS)
        known_instances = informers.informer(INSTANCES)
        self._fleets = Fleets(known_instances)
        self._networks = DeploymentNetworks(informers)
        self._bindings = DeploymentBindings(context, self._networks)
        self._instances = InstanceWriter(context)
        self._controller = context.controller("deployment", self.reconcile, workers=16)
        self._controller.watches(self._known)
        self._controller.watches(known_instances, _OF_DEPLOYMENT, after=DEBOUNCE_SECONDS)
        self._bindings.wake(self._controller)
        for informer in (*context.addresses.informers, *self._instances.informers):
            self._controller.awaits(informer)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Make one pass over one deployment."""
        deployment = self._known.get(key)
        if deployment is None:
            return None
        if deployment.metadata.deletion_timestamp is not None:
            await self._finish(deployment)
            return None
        location = deployment.status.location if deployment.status else None
        if location is None:
            await self._write_status(deployment, self._scheduling(deployment), network_ready=False)
            return None
        # Before the steps: Instances need the networks of the Location, and these the bindings.
        refusal = await self._bindings.ensure(deployment, location)
        networks = self._networks.attachments(deployment)
        try:
            await self._step(deployment, location, networks.value)
        except InstanceRefused as refused:
            refusal = refused.refusal
        blocks = networks.refusals if refusal is None else (refusal, *networks.refusals)
        again = await self._write_status(deployment, blocks, network_ready=networks.decided)
        return (
            RetryAfter(min(RETRY_SECONDS, again or RETRY_SECONDS)) if refusal else RetryAfter(again) if again else None
        )

    def _scheduling(self, deployment: WorkloadDeployment) -> list[Refusal]:
        """Return the scheduler's reason for assigning no Location."""
        condition = find(deployment.status.conditions, SCHEDULED) if deployment.status else None
        if condition is None or condition.status != "False":
            return []
        return [Refusal(condition.reason, condition.message)]

    def _is_new(self, deployment: WorkloadDeployment) -> bool:
        """Return True if its networks may become ready before its first Instances, which then need no gate."""
        created = deployment.metadata.creation_timestamp
        return created is not None and abs(self._clock.now() - parse_rfc3339(created)) < NETWORK_SECONDS

    async def _step(
        self, deployment: WorkloadDeployment, location: LocationReference, networks: Sequence[Attachment] | None
    ) -> None:
        """Start, stop, delete, create and release Instances as decided."""
        # `members` is a live view: it is read again after each await, since watches change it meanwhile.
        uid, goal = deployment.metadata.uid, rollout.CityGoal.of(deployment.spec)
        members = self._fleets.of(uid)
        machine = deployment.spec.template.spec.runtime.virtual_machine
        if machine is not None:
            others = [each for each in members.values() if each.applied is (not machine.running)]
            await self._instances.switch(others, running=machine.running)
            members = self._fleets.of(uid)
        steps = rollout.plan(goal, self._fleets.views(uid))
        # No await since the plan: every member that it names is still there.
        await self._instances.remove([members[each.instance.name] for each in steps.remove])
        # For a moment, a new deployment waits for its networks: Instances created with addresses need no second write.
        if networks is not None or members or not self._is_new(deployment):
            await self._instances.make(deployment, location, goal.template_hash, steps.create, networks)
        if networks is not None:
            members = self._fleets.of(uid).values()
            await self._instances.release([member for member in members if member.waits_for_network], networks)
        # Read after all awaits: a disk whose Instance was created meanwhile must stay.
        ordinals = {view.ordinal for view in self._fleets.views(uid)}
        await self._instances.remove_disks(uid, goal.desired, ordinals)

    async def _write_status(
        self, deployment: WorkloadDeployment, blocks: Sequence[Refusal], *, network_ready: bool
    ) -> float | None:
        """Write the status. Return the seconds after which time alone changes it, or None."""
        own, goal, known = deployment.metadata, rollout.CityGoal.of(deployment.spec), deployment.status
        facts = DeploymentFacts(
            city=deployment.spec.city_code,
            generation=own.generation,
            desired=goal.desired,
            template_hash=goal.template_hash,
            revision=goal.template_hash,
            selector=f"{LABEL_DEPLOYMENT_UID}={own.uid}",
            instances=list(self._fleets.views(own.uid)),
            blocks=blocks,
            located=known is not None and known.location is not None,
            network_ready=network_ready,
            paused=goal.paused,
            deleting=own.deletion_timestamp is not None,
            window=(deployment.spec.rollout or Rollout()).min_ready_seconds,
        )
        # From the live view, after the writes of this pass: those that watches have delivered count already.
        status, again = deployment_status(facts, known, self._clock.now())
        await write_status(self._deployments, own, known, status, MANAGER)
        return again

    async def _finish(self, deployment: WorkloadDeployment) -> None:
        """Release a deleted deployment once all its Instances are gone, and its bindings with it."""
        metadata = deployment.metadata
        members = list(self._fleets.of(metadata.uid).values())
        await self._instances.remove([member for member in members if not member.view.deleting])
        if not members and FINALIZER in metadata.finalizers:
            # Before the finalizer: afterwards no pass finds the deployment, and orphaned bindings would stay.
            await self._bindings.remove(metadata.uid)
            kept = [each for each in metadata.finalizers if each != FINALIZER]
            try:
                await set_finalizers(self._deployments, metadata, kept)
            except NotFound:
                return
