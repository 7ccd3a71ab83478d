"""The volumes of all pods of a node, over a medium.

All state is on the host: folders, mounts and devices under the root. Nothing is kept in memory between calls, so a
restarted agent continues where the killed one stopped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.volumes.interface import (
    DiskGrown,
    MountedVolume,
    Sources,
    Unusable,
    VolumeError,
    VolumeNotReady,
    VolumeUsage,
    no_machines,
)
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.removal import remove_folder
from tarmac.volumes.linux.safepath import PathEscapes, hold
from tarmac.volumes.medium import Medium
from tarmac.volumes.mounting import ATTACHING, MountDependencies, PodMounts, used_volumes, with_volume_name
from tarmac.volumes.node import Facts
from tarmac.volumes.threads import KeyedLocks, in_thread

_BUSY_WAITS = (0.02, 0.1, 0.4, 1.0)
_log = log("volumes")

MAX_ENTRIES = 200_000
_BLOCK = 512


class PodVolumes:
    """Implements `Volumes`."""

    def __init__(
        self,
        layout: VolumeLayout,
        medium: Medium,
        sources: Sources,
        facts: Facts,
        clock: Clock,
        grown: DiskGrown = no_machines,
    ) -> None:
        self._layout = layout
        self._medium = medium
        self._clock = clock
        self._pods = KeyedLocks()
        self._disks = KeyedLocks()
        self._mounted_since_sweep: set[str] = set()
        self._dependencies = MountDependencies(layout, medium, sources, facts, clock, self._disks, grown)

    async def start(self) -> None:
        """Prepare the root."""
        await in_thread(self._medium.prepare)

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]:
        """Mount every volume that a container uses."""
        self._mounted_since_sweep.add(pod["metadata"]["uid"])
        async with self._pods.hold(pod["metadata"]["uid"]):
            mounts = PodMounts(self._dependencies, pod)
            return {volume["name"]: await mounts.mount(volume, kind) for volume, kind in used_volumes(pod)}

    async def refresh(self, pod: JsonObject) -> Set[str]:
        """Update every volume that can be, then raise the first failure."""
        first: VolumeError | None = None
        async with self._pods.hold(pod["metadata"]["uid"]):
            mounts = PodMounts(self._dependencies, pod)
            for volume, kind in used_volumes(pod):
                try:
                    await mounts.refresh(volume, kind)
                except VolumeError as error:
                    first = first or error
        if first is not None:
            raise first
        return mounts.changed

    async def unmount(self, pod_uid: str) -> None:
        """Remove mounts first, then folders, then unused devices."""
        async with self._pods.hold(pod_uid):
            await self._take_away(pod_uid)
        await self._detach_unused()

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove volumes found on the host: folders, mounts, devices. Pods mounted meanwhile cannot be in `live`."""
        self._mounted_since_sweep.clear()
        found = await in_thread(lambda: self._layout.pods_with_volumes() | self._medium.mounted_pods())
        gone: list[str] = []
        for uid in sorted(found - live):
            async with self._pods.hold(uid):
                if uid not in self._mounted_since_sweep:
                    await self._take_away(uid)
                    gone.append(uid)
        await self._detach_unused()
        return gone

    async def subpath(self, volume: MountedVolume, path: str, pod_uid: str, container: str, index: int) -> str:
        """Resolve beneath the volume by the kernel, then mount by descriptor: symlinks cannot redirect that."""
        target = self._layout.subpath(pod_uid, volume.name, container, index)
        async with self._pods.hold(pod_uid):
            with with_volume_name(volume.name):
                await in_thread(self._bind_part, volume, path, target)
        return target

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        """Measure each volume: a separate filesystem reports at once, folders on the node's are walked."""
        return await in_thread(self._measure, pod_uid)

    async def disks(self) -> Sequence[str]:
        """Return the complete disks."""
        return await in_thread(self._layout.disk_names)

    async def remove_disk(self, name: str) -> None:
        """Remove an unused disk."""
        async with self._disks.hold(name), self._disks.hold(ATTACHING):
            if await in_thread(self._medium.disk_in_use, name):
                raise VolumeNotReady(name, f"disk {name} is in use", "VolumeInUse")
            await in_thread(self._medium.remove_disk, name)

    async def purge(self) -> None:
        """Remove every mount and device."""
        await in_thread(self._medium.close)

    async def _take_away(self, uid: str) -> None:
        for part in self._layout.parts(uid):
            await self._release(part)
        await in_thread(self._remove, uid)

    async def _release(self, path: str) -> None:
        for wait in _BUSY_WAITS:
            if not await in_thread(self._medium.release, path):
                return
            await self._clock.sleep(wait)
        busy = await in_thread(self._medium.release, path)
        if busy:
            _log.warning("mounts stay busy, detaching them lazily", mounts=list(busy))
            await in_thread(self._medium.release, path, lazy=True)

    def _remove(self, uid: str) -> None:
        for part in self._layout.parts(uid):
            remove_folder(part)
        with suppress(OSError):  # other components keep files there too
            os.rmdir(self._layout.pod(uid))

    async def _detach_unused(self) -> None:
        async with self._disks.hold(ATTACHING):
            await in_thread(lambda: self._medium.detach_unused([os.readlink(x) for x in self._layout.device_links()]))

    def _bind_part(self, volume: MountedVolume, path: str, target: str) -> None:
        try:
            held = hold(volume.path, path)
        except PathEscapes as error:
            raise Unusable(volume.name, str(error), "InvalidSubPath") from error
        try:
            self._medium.bind(held, target)
        finally:
            os.close(held)

    def _measure(self, uid: str) -> dict[str, VolumeUsage]:
        return {name: measure(path, self._layout.root) for _, name, path in self._layout.volumes_of(uid)}


# Disk usage of a volume.
#
# A volume with a separate filesystem reports its own. A folder on the node's filesystem is walked, as there are no
# quotas; the walk ends after a bounded number of entries, so that a pod with millions of files costs only itself.


def measure(path: str, root: str) -> VolumeUsage:
    """Measure a volume; `root` is the node's own folder."""
    whole = os.statvfs(path)
    capacity, available = whole.f_blocks * whole.f_frsize, whole.f_bavail * whole.f_frsize
    if os.stat(path).st_dev != os.stat(root).st_dev:
        used = (whole.f_blocks - whole.f_bfree) * whole.f_frsize
        inodes = whole.f_files - whole.f_ffree
        return VolumeUsage(used, capacity, available, inodes, whole.f_files, whole.f_ffree)
    used, inodes = _walk(path)
    return VolumeUsage(used, capacity, available, inodes, whole.f_files, whole.f_ffree, shared=True)


def _walk(path: str) -> tuple[int, int]:
    own = os.stat(path)
    used, inodes = own.st_blocks * _BLOCK, 1
    folders, linked = [path], set[int]()
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_dev != own.st_dev or (found.st_nlink > 1 and found.st_ino in linked):
                    continue
                used, inodes = used + found.st_blocks * _BLOCK, inodes + 1
                if inodes >= MAX_ENTRIES:
                    _log.info("volume has too many files, counting stopped", path=path, counted=inodes)
                    return used, inodes
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif found.st_nlink > 1:
                    linked.add(found.st_ino)
    return used, inodes
