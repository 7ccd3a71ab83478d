"""Provisions local disks: a volume on the node that the scheduler selected, expanded on demand, deleted with its claim.

Each step is visible in the objects, so that the next process continues after a crash: the volume is created, the claim
names it, both become Bound. When the claim is gone, its volume is released and deleted; the node removes the image and
then our finalizer. The disks of a deleted node are gone with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE, LOCAL_DISKS
from tarmac.api.conditions import replaced, stated
from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, NotFound
from tarmac.client.cache import Item, by_label
from tarmac.client.eventrecorder import InvolvedObject
from tarmac.client.targets.untyped import NODES, STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from tarmac.controllers.context import ControllerContext
from tarmac.decide.disks import (
    BIND_COMPLETED,
    RESIZE_PENDING,
    claims,
    has_grown,
    is_local,
    shall_grow,
    size_wanted,
    volume_name,
    volume_of,
)
from tarmac.decide.scheduling.diskconstraints import SELECTED_NODE

MANAGER = "tarmac-volume"
BY_NODE = "node"


class LocalDiskController:
    """Two loops: claims by key, volumes by name."""

    def __init__(self, context: ControllerContext) -> None:
        client, informers = context.client, context.informers
        self._recorder = context.recorder
        self._claims = client.resource(VOLUME_CLAIMS)
        self._volumes = client.resource(VOLUMES)
        self._known_claims = informers.informer(VOLUME_CLAIMS)
        self._known_volumes = informers.informer(VOLUMES)
        self._known_volumes.add_index(BY_NODE, by_label(LABEL_DISK_NODE))
        self._classes = informers.informer(STORAGE_CLASSES)
        self._nodes = informers.informer(NODES)
        self._claim_loop = context.controller("local-disk-claims", self.reconcile_claim)
        self._claim_loop.watches(self._known_claims)
        self._claim_loop.watches(self._known_volumes, _claim_of)
        self._claim_loop.awaits(self._classes)
        self._claim_loop.awaits(self._nodes)
        self._volume_loop = context.controller("local-disks", self.reconcile_volume)
        self._volume_loop.watches(self._known_volumes)
        self._volume_loop.watches(self._known_claims, lambda item: (volume_name(item.metadata.uid),))
        self._nodes.on_change(self._node_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claim_loop.run())
            group.create_task(self._volume_loop.run())

    def _node_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None and old is not None:
            for item in self._known_volumes.indexed(BY_NODE, old.metadata.name):
                self._volume_loop.queue.add(item.key)

    # Claims.

    async def reconcile_claim(self, key: str) -> None:
        """Take the next step for one claim."""
        claim = self._known_claims.get(key)
        if claim is None or "deletionTimestamp" in claim["metadata"] or not self._is_ours(claim):
            return
        volume = self._known_volumes.get(claim["spec"].get("volumeName") or volume_name(claim["metadata"]["uid"]))
        if volume is None:
            await self._provide(claim)
        # Never bound: the data is another claim's, or about to be deleted.
        elif not claims(volume, claim) or "deletionTimestamp" in volume["metadata"]:
            return
        elif (claim.get("status") or {}).get("phase") != "Bound" or (volume.get("status") or {}).get(
            "phase"
        ) != "Bound":
            await self._bind(claim, volume)
        elif shall_grow(claim, volume):
            capacity = {"spec": {"capacity": {"storage": size_wanted(claim)}}}
            await self._volumes.patch(volume["metadata"]["name"], capacity, manager=MANAGER)
        else:
            await self._report_growth(claim, volume)

    def _is_ours(self, claim: JsonObject) -> bool:
        found = self._classes.get(claim["spec"].get("storageClassName") or "")
        return found is not None and found["provisioner"] == LOCAL_DISKS

    async def _provide(self, claim: JsonObject) -> None:
        metadata = claim["metadata"]
        chosen = (metadata.get("annotations") or {}).get(SELECTED_NODE, "")
        if not chosen or claim["spec"].get("volumeName"):
            return
        if chosen not in self._nodes.cache:  # the node was deleted: let the scheduler select again
            patch: JsonObject = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            await self._claims.patch(metadata["name"], patch, metadata["namespace"], manager=MANAGER)
            return
        try:
            made = await self._volumes.create(volume_of(claim, chosen), manager=MANAGER)
        except AlreadyExists:
            return  # the cache is behind; the existing volume triggers the next pass
        about = InvolvedObject("v1", "PersistentVolumeClaim", metadata["name"], metadata["namespace"], metadata["uid"])
        message = f"Successfully provisioned volume {made['metadata']['name']}"
        self._recorder.event(about, "Normal", "ProvisioningSucceeded", message)

    async def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        metadata, spec, name = claim["metadata"], volume["spec"], volume["metadata"]["name"]
        if not claim["spec"].get("volumeName"):
            # The claim names its volume before either is Bound: after a crash, the next pass continues from the missing
            # phase.
            bound = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": name}}
            await self._claims.patch(metadata["name"], bound, metadata["namespace"], manager=MANAGER)
        if (volume.get("status") or {}).get("phase") != "Bound":
            await self._volumes.patch(name, {"status": {"phase": "Bound"}}, subresource="status", manager=MANAGER)
        status = {"phase": "Bound", "capacity": spec["capacity"], "accessModes": spec["accessModes"]}
        await self._patch_status(claim, status)

    async def _report_growth(self, claim: JsonObject, volume: JsonObject) -> None:
        """Show the condition FileSystemResizePending until the node has expanded the disk."""
        conditions = (claim.get("status") or {}).get("conditions") or []
        waiting, reported = not has_grown(claim, volume), bool(stated(conditions, RESIZE_PENDING))
        if waiting and not reported:
            message = "The node grows the disk while a pod uses it, or when it is next mounted."
            pending = {"type": RESIZE_PENDING, "status": "True", "message": message}
            await self._patch_status(claim, {"conditions": replaced(conditions, pending)})
        elif reported and not waiting:
            others = [each for each in conditions if each["type"] != RESIZE_PENDING]
            await self._patch_status(claim, {"conditions": others or None})

    async def _patch_status(self, claim: JsonObject, status: JsonObject) -> None:
        metadata = claim["metadata"]
        await self._claims.patch(
            metadata["name"], {"status": status}, metadata["namespace"], subresource="status", manager=MANAGER
        )

    # Volumes.

    async def reconcile_volume(self, name: str) -> None:
        """Release and delete one volume when its claim is gone, and remove its finalizer when its node is gone."""
        volume = self._known_volumes.get(name)
        if volume is None or not is_local(volume):
            return
        if await self._is_claimed(volume):
            return
        metadata = volume["metadata"]
        if (volume.get("status") or {}).get("phase") != "Released":
            await self._volumes.patch(name, {"status": {"phase": "Released"}}, subresource="status", manager=MANAGER)
        if "deletionTimestamp" not in metadata:
            if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                # By uid: the volume that was judged, and not a later one of its name.
                await self._volumes.delete(name, uid=metadata["uid"])
        elif DISK_FINALIZER in metadata["finalizers"] and metadata["labels"][LABEL_DISK_NODE] not in self._nodes.cache:
            # The node that would remove the image and this finalizer no longer exists: otherwise the volume would stay
            # for ever.
            kept = [each for each in metadata["finalizers"] if each != DISK_FINALIZER]
            patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": kept or None}}
            await self._volumes.patch(name, patch, manager=MANAGER)

    async def _is_claimed(self, volume: JsonObject) -> bool:
        """Return True if the claim still exists.

        The cache may be behind and data would be lost, so the server is asked.
        """
        reference = volume["spec"].get("claimRef")
        if reference is None:
            return True  # released by an administrator, for a later claim
        if claims(volume, self._known_claims.get(f"{reference['namespace']}/{reference['name']}")):
            return True
        try:
            return claims(volume, await self._claims.get(reference["name"], reference["namespace"]))
        except NotFound:
            return False


def _claim_of(item: Item[Any]) -> tuple[str, ...]:
    reference = item.object["spec"].get("claimRef") or {}
    return (f"{reference['namespace']}/{reference['name']}",) if reference.get("name") else ()
