"""Keeps one Pod for every Instance without scheduling gates, and writes the Pod's state into the Instance's status.

A lost Pod is created again for the same Instance, and so is a disk deleted while its Pod has no node. A deleted
Instance remains until its Pod is gone, so a client that waits for the Instance has waited for its containers. Obstacles
to a Pod (an unrelated object with its name, a disk that belongs to another owner, an unknown type, an unavailable
image, a node that just ended the previous Pod) are reported in the Instance's conditions and retried when they change.
A machine's boot disk that remains from an earlier Instance with another image is deleted before the Pod is created
(`decide.bootdisks`). A stopped machine has no Pod; its claims and addresses are kept for the next one.
"""

from __future__ import annotations

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import (
    API_VERSION,
    INSTANCE_FINALIZER,
    LABEL_DEPLOYMENT_NAME,
    LABEL_DEPLOYMENT_UID,
    claim_name,
)
from tarmac.api.conditions import holds
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, Forbidden, Invalid, NotFound
from tarmac.client.cache import Item
from tarmac.client.controller import RetryAfter
from tarmac.client.envelope import EnvelopeMetadata, metadata_of
from tarmac.client.errors import exceeds_quota
from tarmac.client.targets.typed import INSTANCE_TYPES, INSTANCES
from tarmac.client.targets.untyped import PODS, VOLUME_CLAIMS
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.instance.blocks import InstanceBlocks
from tarmac.controllers.instance.catalogueimages import KnownImages
from tarmac.controllers.instance.dependents import DependentIndex
from tarmac.controllers.instance.endings import RULE as BACKOFF
from tarmac.controllers.instance.endings import PodEndings
from tarmac.controllers.instance.instanceevents import announce, reference
from tarmac.controllers.instance.statusinterfaces import interfaces_of
from tarmac.controllers.nameconflict import name_taken
from tarmac.controllers.writes import delete_same, release, write_status
from tarmac.decide import reasons
from tarmac.decide.bootdisks import KEPT, REPLACED, boot_volume, described, is_of_another_image, is_retained
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.pods import pod_of
from tarmac.decide.derived.volumes import claims
from tarmac.decide.machineimages import Images
from tarmac.decide.powerstate import is_stopped
from tarmac.decide.rollup import InstanceInput, InstancePod, PodProgress, instance_status
from tarmac.decide.verdict import Refusal

MANAGER = "tarmac-instance"
WORKERS = 64
DEBOUNCE_SECONDS = 0.5
BUSY = 64  # with this many Instances queued, no events are recorded for each
RETRY_SECONDS = 5.0  # where no watch reports the end: a rejection by the server
_CLAIM, _TYPE = "PersistentVolumeClaim", "InstanceType"
_SERVER = "server"  # rule of a refusal that only a retry can lift

_read_pod = msgspec.json.Decoder(InstancePod).decode


class InstanceReconciler:
    """Reconciles by the Instance's key, which is also its Pod's."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._clock = client.clock
        self._recorder = context.recorder
        self._networked = context.networked
        self._instances = client.resource(INSTANCES.unread)
        self._pods = client.resource(PODS.unread)
        self._claims = client.resource(VOLUME_CLAIMS.unread)
        self._known = informers.informer(INSTANCES)
        self._known_pods = informers.informer(PODS)
        self._known_claims = informers.informer(VOLUME_CLAIMS)
        self._known_types = informers.informer(INSTANCE_TYPES)
        self._endings = PodEndings(client.clock)
        self._dependents = DependentIndex()
        self._blocks = InstanceBlocks(context, self._dependents)
        self._images = KnownImages(context, self._dependents)
        self._controller = context.controller("instance", self.reconcile, workers=WORKERS)
        self._controller.watches(self._known)
        self._controller.awaits(self._known_pods)
        self._known_pods.on_change(self._pod_changed)
        self._controller.watches(self._known_claims, self._dependents.woken_by(_CLAIM))
        self._controller.watches(self._known_types, self._dependents.woken_by(_TYPE))
        self._blocks.wake(self._controller)
        self._images.wake(self._controller)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    def _pod_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """Queue the Instance: at once when its Pod became ready, unready or was deleted, otherwise debounced.

        A starting Pod changes several times in a moment.
        """
        item = new or old
        if item is None or item.key not in self._known.cache:
            return
        urgent = new is None or old is None or _ready(new) != _ready(old)
        self._controller.queue.add_after(item.key, 0 if urgent and old is not None else DEBOUNCE_SECONDS)

    async def reconcile(self, key: str) -> RetryAfter | None:
        """Make one Instance's Pod and status match its spec."""
        instance = self._known.get(key)
        if instance is None:
            self._endings.forget(key)
            return None
        pod = self._known_pods.cache.item(key)
        # A Pod of the name may be foreign or an earlier Instance's: it is neither adopted nor deleted here.
        own = pod if pod is not None and _is_own(pod.metadata, instance) else None
        if instance.metadata.deletion_timestamp is not None:
            return await self._finish(instance, own)
        if is_stopped(instance.spec) and not gates_of(instance):
            if own is not None:
                await self._delete_pod(own.metadata)
            await self._write_status(key, instance, own, None)
            return None
        if pod is None and not gates_of(instance):
            if instance.status is not None and holds(instance.status.conditions, "Ready"):
                # it is not ready any more, whether or not the new Pod succeeds
                await self._write_status(key, instance, None, None)
            refusal = await self._make(key, instance)
            if refusal is None:
                return None  # the new Pod triggers the next pass
        else:
            refusal = await self._check(key, instance, pod, own)
        await self._write_status(key, instance, own, refusal)
        if refusal is not None and refusal.rule == BACKOFF:
            return RetryAfter(self._endings.left(key, instance.metadata.uid))
        return RetryAfter(RETRY_SECONDS) if refusal is not None and refusal.rule == _SERVER else None

    async def _finish(self, instance: Instance, pod: Item[JsonObject] | None) -> RetryAfter | None:
        """Release a deleted Instance once its Pod is gone. Its disks remain: its successor may use them."""
        metadata = instance.metadata
        if pod is not None:
            await self._delete_pod(pod.metadata)
        elif INSTANCE_FINALIZER in metadata.finalizers:
            uncached = await self._uncached_pod(instance)
            if uncached is not None:
                await self._delete_pod(uncached)
                return RetryAfter(RETRY_SECONDS)
            # Only now: with the Instance gone its addresses are free, and a live Pod would still use them.
            await release(self._instances, metadata, INSTANCE_FINALIZER)
        return None

    async def _uncached_pod(self, instance: Instance) -> EnvelopeMetadata | None:
        """Return the Instance's Pod from the server: the cache may not show a Pod created a moment ago.

        If the Instance went before its Pod, its address could be reassigned while the Pod still uses it.
        """
        own = instance.metadata
        try:
            found = metadata_of(await self._pods.get(own.name, own.namespace))
        except NotFound:
            return None
        return found if _is_own(found, instance) else None

    async def _check(
        self, key: str, instance: Instance, pod: Item[JsonObject] | None, own: Item[JsonObject] | None
    ) -> Refusal | None:
        """Check the existing Pod of this name; return a refusal when it is not this Instance's.

        An ended Pod is deleted. Missing disks are created while the Pod has no node.
        """
        if pod is None or gates_of(instance):
            return None
        if own is None:
            return _name_taken("Pod", key, pod.metadata.deletion_timestamp is not None or _is_instances(pod.metadata))
        facts = _read_pod(own.raw)
        ended = facts.status
        # restartPolicy is Always: the Pod ends only when its node rejects or evicts it
        if ended.phase in TERMINAL and own.metadata.deletion_timestamp is None:
            message = f"Pod ended: {ended.message or ended.reason or ended.phase}"
            self._recorder.event(reference(instance), "Warning", reasons.FAILED, message)
            cause, why = ended.reason or ended.phase, ended.message or ended.reason or ended.phase
            # Before the deletion, whose event may start the next pass: without the note, the next Pod starts without a
            # delay.
            self._endings.note(key, instance.metadata.uid, facts.spec.node_name, cause, why)
            await self._delete_pod(own.metadata)
        # On a node its disks are in use: none may be created or replaced any more.
        if facts.spec.node_name:
            return None
        # The Pod has its images; an image that is unavailable by now does not affect it.
        images = (await self._images.of(key, instance)).value
        return await self._ensure_claims(key, instance, images) if images is not None else None

    async def _make(self, key: str, instance: Instance) -> Refusal | None:
        uid = instance.metadata.uid
        if (backoff := self._endings.refusal(key, uid)) is not None:
            return backoff
        amounts = instance_amounts(instance.spec.runtime, self._known_types.get)
        if amounts is None:
            written = instance.spec.runtime.resources.instance_type
            self._dependents.note(key, _TYPE, written.replace("/", "-"))
            change = "Create the InstanceType, or name one that exists."
            return Refusal(reasons.INSTANCE_TYPE_NOT_FOUND, f"InstanceType {written} does not exist.", change=change)
        images = await self._images.of(key, instance)
        if images.value is None:
            return images.refusals[0]
        refusal = await self._replace_boot_disk(key, instance, images.value)
        refusal = refusal or await self._ensure_claims(key, instance, images.value)
        if refusal is not None:
            return refusal
        pod = pod_of(instance, amounts, images.value, avoid=self._endings.avoided(key, uid))
        try:
            await self._pods.create(pod, namespace=instance.metadata.namespace, manager=MANAGER, tracked=False)
        except AlreadyExists:
            return None  # the cache is behind; the existing Pod triggers the next pass
        except (Forbidden, Invalid) as error:
            return _refused(error)
        return None

    async def _replace_boot_disk(self, key: str, instance: Instance, images: Images) -> Refusal | None:
        """Delete a boot disk made from another image. Only done without a Pod, which would still use it."""
        volume = boot_volume(instance.spec)
        if not volume:
            return None
        name = claim_name(instance.metadata.name, volume)
        item = self._known_claims.cache.item(f"{instance.metadata.namespace}/{name}")
        wanted = next(each for each in claims(instance, images) if each["metadata"]["name"] == name)
        if item is None or not _is_stale_boot_disk(item.metadata, wanted, instance):
            return None
        old, new = described(item.metadata.annotations or {}), described(wanted["metadata"]["annotations"])
        if is_retained(wanted):
            message = f"Boot disk {name} is retained and was made from {old}: the image {new} has no effect"
            self._recorder.event(reference(instance), "Warning", KEPT, message)
            return None
        if await self._uncached_pod(instance) is not None:
            return None  # the cache is behind: a Pod uses the disk
        # Note the claim before deleting it: otherwise its deletion might requeue no Instance.
        self._dependents.note(key, _CLAIM, f"{instance.metadata.namespace}/{name}")
        await delete_same(self._claims, item.metadata)
        self._recorder.event(
            reference(instance), "Normal", REPLACED, f"Boot disk {name} of {old} is made again from {new}"
        )
        return _name_taken(_CLAIM, name, going=True)

    async def _ensure_claims(self, key: str, instance: Instance, images: Images) -> Refusal | None:
        """Create missing disks. Until its Pod has a node, no finalizer protects them."""
        for claim in claims(instance, images):
            refusal = await self._ensure_claim(key, instance, claim)
            if refusal is not None:
                return refusal
        return None

    async def _ensure_claim(self, key: str, instance: Instance, claim: JsonObject) -> Refusal | None:
        """Create one disk if missing.

        An existing one is used if it was made for this ordinal and is not being deleted.
        """
        wanted = claim["metadata"]
        claim_key = f"{wanted['namespace']}/{wanted['name']}"
        # Before the look: a deletion in between still wakes this Instance.
        self._dependents.note(key, _CLAIM, claim_key)
        item = self._known_claims.cache.item(claim_key)
        if item is None:
            try:
                await self._claims.create(claim, manager=MANAGER)  # if it exists, we lost a race: the cache is behind
            except (Forbidden, Invalid) as error:
                return _refused(error)
            return None
        found = item.metadata
        going = found.deletion_timestamp is not None or _is_predecessors(found, instance)
        same = (found.labels or {}).get(LABEL_DEPLOYMENT_NAME) == wanted["labels"].get(LABEL_DEPLOYMENT_NAME)
        return None if same and not going else _name_taken(_CLAIM, claim_key, going)

    async def _write_status(
        self, key: str, instance: Instance, pod: Item[JsonObject] | None, refusal: Refusal | None
    ) -> None:
        view = PodProgress.of(_read_pod(pod.raw)) if pod is not None else None
        blocks = await self._blocks.of(key, instance, started=view is not None and view.running.holds)
        controller = instance.spec.controller
        given = InstanceInput(
            generation=instance.metadata.generation,
            template_hash=controller.template_hash if controller else "",
            gates=gates_of(instance),
            blocks=(refusal, *blocks) if refusal else blocks,
            pod=view,
            interfaces=interfaces_of(instance, view.addresses if view else (), networked=self._networked),
            stopped=is_stopped(instance.spec),
        )
        status = instance_status(given, instance.status, self._clock.now())
        written = await write_status(self._instances, instance.metadata, instance.status, status, MANAGER)
        # Under load there are no events: writing them would double the requests of a large rollout.
        if written is not None and len(self._controller.queue) < BUSY:
            announce(self._recorder, instance, status)

    async def _delete_pod(self, metadata: EnvelopeMetadata) -> None:
        if metadata.deletion_timestamp is None:
            await delete_same(self._pods, metadata)


def gates_of(instance: Instance) -> tuple[str, ...]:
    """Return the names of the Instance's scheduling gates."""
    controller = instance.spec.controller
    return tuple(gate.name for gate in controller.scheduling_gates) if controller else ()


def _ready(pod: Item[JsonObject]) -> bool:
    return holds(_read_pod(pod.raw).status.conditions, "Ready")


def _is_own(pod: EnvelopeMetadata, instance: Instance) -> bool:
    """Return True if the Pod was made for this Instance: it is owned by it, or orphaned by its deletion."""
    own = instance.metadata
    if pod.controller is not None:
        return pod.controller.uid == own.uid
    made_for = (pod.labels or {}).get(LABEL_DEPLOYMENT_UID)
    return own.deletion_timestamp is not None and made_for == own.labels.get(LABEL_DEPLOYMENT_UID, "")


def _is_instances(pod: EnvelopeMetadata) -> bool:
    """Return True if the Pod belongs to an earlier Instance of the name; the garbage collector deletes it."""
    owner = pod.controller
    return owner is not None and owner.kind == "Instance" and owner.api_version == API_VERSION


def _is_predecessors(claim: EnvelopeMetadata, instance: Instance) -> bool:
    """Return True if the claim belongs to an earlier deployment of the name, even if our cache shows no deletion yet.

    A Pod bound to such a claim would delay the claim's deletion, and lose its data when the Pod is replaced.
    """
    own = next((owner.uid for owner in instance.metadata.owner_references if owner.controller), None)
    return any(owner.kind == "WorkloadDeployment" and owner.uid != own for owner in claim.owner_references or ())


def _is_stale_boot_disk(claim: EnvelopeMetadata, wanted: JsonObject, instance: Instance) -> bool:
    """Return True if a boot disk is older than this Instance, of the same deployment, and made from another image.

    A disk that this Instance started with stays, even if the catalogue has changed: a Pod that is lost and created
    again finds its machine's files.
    """
    own, notes = instance.metadata, wanted["metadata"]["annotations"]
    same = (claim.labels or {}).get(LABEL_DEPLOYMENT_NAME) == own.labels.get(LABEL_DEPLOYMENT_NAME)
    if not same or claim.deletion_timestamp is not None or _is_predecessors(claim, instance):
        return False
    earlier = (claim.creation_timestamp or "") < str(own.creation_timestamp or "")
    return earlier and is_of_another_image(claim.annotations or {}, notes)


def _name_taken(kind: str, key: str, going: bool) -> Refusal:
    name = key.rpartition("/")[2]
    return name_taken(kind, name, going=going, change=f"Delete or rename {kind} {name}.")


def _refused(error: Forbidden | Invalid) -> Refusal:
    return Refusal(
        reasons.QUOTA_EXHAUSTED if exceeds_quota(error) else reasons.CONFIGURATION_ERROR, str(error), rule=_SERVER
    )
