"""Removes the disks of volumes that are being deleted, then their finalizer, which completes the deletion.

Only volumes of this node are watched. A disk in use by a pod is retried; one that does not exist counts as removed.
Only the deletion of a volume removes a disk: a disk without a volume stays until an operator decides.
"""

from __future__ import annotations

import asyncio

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.controller import Controller, RetryAfter
from tarmac.client.informer import Informers
from tarmac.client.targets.untyped import VOLUMES
from tarmac.volumes.interface import VolumeNotReady, Volumes

RETRY_SECONDS = 5.0

_log = log("disks")


class DiskRemoval:
    """Reconciles by the volume's name."""

    def __init__(self, client: Client, volumes: Volumes, node: str) -> None:
        self._disks = volumes
        self._volumes = client.resource(VOLUMES)
        self._informers = Informers(client)
        self._known = self._informers.informer(VOLUMES, labels=f"{LABEL_DISK_NODE}={node}")
        self._controller = Controller("disks", self.reconcile, clock=client.clock, randomness=client.randomness)
        self._controller.watches(self._known)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run())
            group.create_task(self._controller.run())

    async def reconcile(self, name: str) -> RetryAfter | None:
        """Remove one disk if its volume is being deleted."""
        item = self._known.cache.item(name)
        if item is None or item.metadata.deletion_timestamp is None:
            return None
        finalizers = item.metadata.finalizers or []
        if DISK_FINALIZER not in finalizers:
            return None
        try:
            await self._disks.remove_disk(name)
        except VolumeNotReady as error:
            _log.debug("disk in use", volume=name, why=str(error))
            return RetryAfter(RETRY_SECONDS)
        # Only after the disk is removed: without the finalizer the volume is gone, and nothing would remove the disk.
        kept = [each for each in finalizers if each != DISK_FINALIZER]
        # With the version that was read: a finalizer that was added since would be lost.
        patch = {"metadata": {"resourceVersion": item.metadata.resource_version, "finalizers": kept or None}}
        await self._volumes.patch(name, patch)
        _log.info("disk removed", volume=name)
        return None
