"""Creates, releases and deletes the Instances of a deployment, in batches.

An Instance is never changed except to remove a gate, or to start or stop its machine. Its addresses are written
together with the removal of the gate `Network`, or at creation when the networks are ready by then. The gate `Quota` is
set only where the namespace has a quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import (
    GATE_NETWORK,
    GATE_QUOTA,
    LABEL_DEPLOYMENT_UID,
    LABEL_INSTANCE_INDEX,
    instance_name,
)
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.networking.interfaces import encode_interfaces
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference
from tarmac.api.status import AlreadyExists, ApiError, Conflict, NotFound
from tarmac.client.cache import by_label, by_namespace
from tarmac.client.envelope import metadata_of
from tarmac.client.errors import exceeds_quota
from tarmac.client.targets.typed import INSTANCES
from tarmac.client.targets.untyped import RESOURCE_QUOTAS, VOLUME_CLAIMS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.deployment.fleets import FleetMember
from tarmac.controllers.ipam import Attachment
from tarmac.controllers.nameconflict import name_taken
from tarmac.controllers.writes import delete_same, in_batches
from tarmac.decide import reasons
from tarmac.decide.derived.instances import instance_document
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-deployment"
BY_NAMESPACE, BY_DEPLOYMENT = "namespace", "deployment"


class InstanceRefused(Exception):
    """An Instance cannot be created now."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class InstanceWriter:
    """The deployment controller's writes to Instances and their disks."""

    def __init__(self, context: ControllerContext) -> None:
        self._clock = context.client.clock
        self._instances = context.client.resource(INSTANCES.unread)
        self._claims = context.client.resource(VOLUME_CLAIMS)
        self._addresses = context.addresses
        self._quotas = context.informers.informer(RESOURCE_QUOTAS)
        self._quotas.add_index(BY_NAMESPACE, by_namespace)
        self._known_claims = context.informers.informer(VOLUME_CLAIMS)
        self._known_claims.add_index(BY_DEPLOYMENT, by_label(LABEL_DEPLOYMENT_UID))
        self.informers = (self._quotas, self._known_claims)

    async def make(
        self,
        deployment: WorkloadDeployment,
        location: LocationReference,
        template_hash: str,
        ordinals: Sequence[int],
        attachments: Sequence[Attachment] | None,
    ) -> None:
        """Create Instances at these ordinals. Raises InstanceRefused when one cannot be created."""
        limited = bool(self._quotas.indexed(BY_NAMESPACE, deployment.metadata.namespace))
        quota = (GATE_QUOTA,) if limited else ()

        async def make_one(ordinal: int) -> None:
            annotations = self._addressed(deployment, ordinal, attachments)
            gates = quota if annotations is not None else (GATE_NETWORK, *quota)
            await self._create(
                instance_document(deployment, location, ordinal, template_hash, gates, annotations or {})
            )

        await in_batches(make_one, ordinals, self._clock)

    def _addressed(
        self, deployment: WorkloadDeployment, ordinal: int, attachments: Sequence[Attachment] | None
    ) -> dict[str, str] | None:
        """Return the annotation with the Instance's addresses; None while none are available."""
        if attachments is None:
            return None
        own = deployment.metadata
        # Under the Instance's key: the promise ends when the Instance is observed, or is forgotten on failure.
        verdict = self._addresses.assign(f"{own.namespace}/{instance_name(own.name, ordinal)}", attachments)
        return None if verdict.value is None else {ANNOTATION_INTERFACES: encode_interfaces(verdict.value)}

    async def _create(self, instance: Instance) -> None:
        key = f"{instance.metadata.namespace}/{instance.metadata.name}"
        try:
            await self._instances.create(
                instance, namespace=instance.metadata.namespace, manager=MANAGER, tracked=False
            )
        except AlreadyExists:
            await self._check_existing(instance, key)
        except ApiError as error:
            if error.http_code < 500:  # otherwise it may have been created
                self._addresses.forget(key)
            if exceeds_quota(error):
                raise InstanceRefused(Refusal(reasons.QUOTA_EXHAUSTED, str(error))) from error
            raise

    async def _check_existing(self, instance: Instance, key: str) -> None:
        """Check an existing Instance: ours, with the promised addresses, if the response to its creation was lost.

        Raises InstanceRefused when it belongs to another owner.
        """
        metadata = instance.metadata
        try:
            present = metadata_of(await self._instances.get(metadata.name, metadata.namespace))
        except NotFound:
            self._addresses.forget(key)
            return
        owners = {owner.uid for owner in present.owner_references or () if owner.controller}
        # The promised addresses are free again: the Instance of another owner does not carry them.
        if owners != {owner.uid for owner in metadata.owner_references}:
            self._addresses.forget(key)
            going = present.deletion_timestamp is not None
            raise InstanceRefused(name_taken("Instance", metadata.name, going=going))

    async def release(self, members: Iterable[FleetMember], attachments: Sequence[Attachment]) -> None:
        """Assign addresses to Instances that wait for networks, and remove that gate. Raises InstanceRefused."""

        async def release_one(member: FleetMember) -> None:
            verdict = self._addresses.assign(member.key, attachments)
            if verdict.value is None:
                raise InstanceRefused(verdict.refusals[0])
            # The list is replaced as a whole, conditionally: the quota controller may have removed its gate since.
            gates = [{"name": gate} for gate in member.gates if gate != GATE_NETWORK]
            patch: JsonObject = {
                "metadata": {
                    "resourceVersion": member.version,
                    "annotations": {ANNOTATION_INTERFACES: encode_interfaces(verdict.value)},
                },
                "spec": {"controller": {"schedulingGates": gates or None}},
            }
            namespace, _, name = member.key.rpartition("/")
            try:
                await self._instances.patch(name, patch, namespace, manager=MANAGER)
            except (Conflict, NotFound):
                return  # it has changed meanwhile, and that change triggers the next pass

        await in_batches(release_one, list(members), self._clock)

    async def switch(self, members: Iterable[FleetMember], *, running: bool) -> None:
        """Start or stop machines as the template says.

        A machine switched individually stays so until the template changes.
        """

        async def switch_one(member: FleetMember) -> None:
            # One write for both: after a crash in between, the next pass would undo a user's later switch of the
            # machine.
            spec: JsonObject = {"runtime": {"virtualMachine": {"running": running}}, "controller": {"running": running}}
            patch: JsonObject = {"metadata": {"resourceVersion": member.version}, "spec": spec}
            namespace, _, name = member.key.rpartition("/")
            try:
                await self._instances.patch(name, patch, namespace, manager=MANAGER)
            except (Conflict, NotFound):
                return  # it has changed meanwhile, and that change triggers the next pass

        await in_batches(switch_one, list(members), self._clock)

    async def remove(self, members: Iterable[FleetMember]) -> None:
        """Delete Instances; those already deleted or replaced are skipped."""

        async def remove_one(member: FleetMember) -> None:
            namespace, _, name = member.key.rpartition("/")
            try:
                # By uid: a successor may have the name by now.
                await self._instances.delete(name, namespace, uid=member.uid)
            except (Conflict, NotFound):
                return

        await in_batches(remove_one, list(members), self._clock)

    async def remove_disks(self, deployment_uid: str, desired: int, ordinals: set[int]) -> None:
        """Delete the disks of ordinals that are scaled away and have no Instance any more, unless retained."""
        for item in self._known_claims.indexed(BY_DEPLOYMENT, deployment_uid):
            metadata = item.metadata
            ordinal = int((metadata.labels or {}).get(LABEL_INSTANCE_INDEX, "-1"))
            owned = any(owner.uid == deployment_uid for owner in metadata.owner_references or ())
            if ordinal < desired or ordinal in ordinals or not owned or metadata.deletion_timestamp is not None:
                continue
            await delete_same(self._claims, metadata)
