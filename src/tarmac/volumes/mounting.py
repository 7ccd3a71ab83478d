"""Mounts one pod's volumes, by kind.

Every method is idempotent: it checks the present state first. While the objects behind a volume are unavailable
(`SourceUnavailable`), the result of an earlier mount is used as it is; so a restarted agent without a server still has
the volumes of the pods it runs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.base.quantity import Quantity
from tarmac.volumes import hostpaths
from tarmac.volumes.claimeddisks import ClaimedStorage, is_machine, resolve
from tarmac.volumes.content.collect import Collector, fs_group
from tarmac.volumes.content.files import ContentMissing, ContentUnsupported, Payload
from tarmac.volumes.interface import (
    DiskGrown,
    MountedVolume,
    Sources,
    SourceUnavailable,
    Unusable,
    VolumeError,
    VolumeNotReady,
)
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.medium import Medium, MediumFault, StoredDisk
from tarmac.volumes.nesting import make_nested
from tarmac.volumes.node import Facts, memory_size
from tarmac.volumes.ownership import give_to_group
from tarmac.volumes.threads import KeyedLocks, in_thread
from tarmac.volumes.writer import BadPath, write

PROJECTED = ("configMap", "secret", "downwardAPI", "projected")
CLAIMED = ("persistentVolumeClaim", "ephemeral")
_CLAIM = "persistentVolumeClaim"
_MODE = 0o777
_WRITTEN = "..data"

_log = log("volumes")


@dataclass(frozen=True, slots=True)
class MountDependencies:
    """Dependencies for mounting, shared by all pods."""

    layout: VolumeLayout
    medium: Medium
    sources: Sources
    facts: Facts
    clock: Clock
    locks: KeyedLocks  # by disk while it is made and mounted; by ATTACHING while block devices are attached or detached
    grown: DiskGrown


ATTACHING = " attaching"


def used_volumes(pod: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    """Yield the volumes that containers use, with their kind."""
    spec = pod["spec"]
    used: set[str] = set()
    for sort in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(sort) or ():
            used.update(each["name"] for each in container.get("volumeMounts") or ())
            used.update(each["name"] for each in container.get("volumeDevices") or ())
    for volume in spec.get("volumes") or ():
        if volume["name"] in used:
            yield volume, next((key for key in volume if key != "name"), "emptyDir")


@contextmanager
def with_volume_name(volume: str) -> Generator[None]:
    """Convert errors to VolumeError with the volume's name, for the pod's event."""
    try:
        yield
    except VolumeError:
        raise
    except (ContentMissing, SourceUnavailable, MediumFault, OSError) as error:
        raise VolumeNotReady(volume, str(error)) from error
    except (ContentUnsupported, BadPath) as error:
        raise Unusable(volume, str(error)) from error


class PodMounts:
    """The volumes of one pod."""

    def __init__(self, dependencies: MountDependencies, pod: JsonObject) -> None:
        self._deps = dependencies
        self._pod = pod
        self._uid: str = pod["metadata"]["uid"]
        self._group = fs_group(pod)
        self.changed: set[str] = set()
        """Volumes with newly written files."""

    async def mount(self, volume: JsonObject, kind: str) -> MountedVolume:
        """Mount a volume. Raises VolumeError."""
        name, source = volume["name"], volume.get(kind) or {}
        with with_volume_name(name):
            if kind in PROJECTED:
                return await self._projected(name, kind, source)
            if kind in CLAIMED:
                return await self._claimed(volume, kind, source)
            if kind == "emptyDir":
                return await self._empty(name, source)
            if kind == "hostPath":
                await in_thread(hostpaths.check, source["path"], source.get("type") or "")
                return MountedVolume(name, source["path"], owned_by_pod=False)
            if kind == "image":
                return await self._image(name, source)
            raise ContentUnsupported(f"volumes of the kind {kind} are not offered by this node")

    async def refresh(self, volume: JsonObject, kind: str) -> None:
        """Update a mounted volume. Raises VolumeError."""
        if kind in PROJECTED or kind in CLAIMED:
            await self.mount(volume, kind)

    async def _projected(self, name: str, kind: str, source: JsonObject) -> MountedVolume:
        path = self._deps.layout.volume(self._uid, kind, name)
        collector = Collector(self._pod, self._deps.sources, self._deps.facts().allocatable)
        try:
            payload = await collector.files(kind, source)
        except SourceUnavailable:
            if not os.path.islink(f"{path}/{_WRITTEN}"):
                raise
        else:
            await in_thread(self._write, name, kind, path, payload)
        return MountedVolume(name, path, read_only=True)

    def _write(self, name: str, kind: str, path: str, payload: Payload) -> None:
        if kind == "configMap":
            _make_folder(path)
        else:
            self._deps.medium.memory(path, None)
        make_nested(self._pod, name, path)
        if write(path, payload, self._deps.clock.now(), lambda: give_to_group(path, self._group, read_only=True)):
            self.changed.add(name)

    async def _empty(self, name: str, source: JsonObject) -> MountedVolume:
        path = self._deps.layout.volume(self._uid, "emptyDir", name)
        medium = source.get("medium") or ""
        if medium == "Memory":
            size = memory_size(self._pod, source, self._deps.facts().allocatable)
            await in_thread(self._deps.medium.memory, path, size)
        elif medium == "":
            await in_thread(_make_folder, path)
        else:
            raise ContentUnsupported(f'unknown storage medium "{medium}"')
        await in_thread(give_to_group, path, self._group, only_on_mismatch=True)
        return MountedVolume(name, path)

    async def _image(self, name: str, source: JsonObject) -> MountedVolume:
        path = self._deps.layout.volume(self._uid, "image", name)
        if not await in_thread(self._deps.medium.is_mounted, path):
            async with self._deps.sources.image_root(source["reference"], self._pod) as root:
                await in_thread(self._bind, root, path, read_only=True)
        return MountedVolume(name, path, read_only=True)

    def _bind(self, source: str, path: str, *, read_only: bool) -> None:
        held = os.open(source, os.O_PATH)
        try:
            self._deps.medium.bind(held, path, read_only=read_only)
        finally:
            os.close(held)

    async def _claimed(self, volume: JsonObject, kind: str, source: JsonObject) -> MountedVolume:
        name, layout = volume["name"], self._deps.layout
        path, link = layout.volume(self._uid, _CLAIM, name), layout.device(self._uid, name)
        read_only = bool(source.get("readOnly"))
        try:
            claimed = await resolve(self._pod, volume, self._deps.sources, self._deps.facts())
        except SourceUnavailable:
            if os.path.islink(link):
                return MountedVolume(name, os.readlink(link), read_only, device=True)
            if not await in_thread(self._deps.medium.is_mounted, path):
                raise
            return MountedVolume(name, path, read_only)
        if claimed.disk is None:
            known = await in_thread(self._deps.medium.is_mounted, path)
            await in_thread(self._bind, claimed.folder, path, read_only=read_only)
            if claimed.owned and not read_only:
                await self._give_to_group(path, known)
            return MountedVolume(name, path, read_only, owned_by_pod=claimed.owned)
        async with self._deps.locks.hold(claimed.disk.name):
            await self._make_disk(claimed, claimed.disk)
            if claimed.disk.block:
                attach = self._hand_file if is_machine(self._pod) else self._attach_device
                device = await attach(claimed, claimed.disk, link)
                return MountedVolume(name, device, read_only, device=True)
            await self._mount_disk(claimed, claimed.disk, path, read_only)
            return MountedVolume(name, path, read_only)

    async def _make_disk(self, claimed: ClaimedStorage, disk: StoredDisk) -> None:
        medium, metadata = self._deps.medium, claimed.claim["metadata"]
        if await in_thread(medium.has_disk, disk):
            return
        if "deletionTimestamp" in metadata:
            raise ContentMissing(f'persistentvolumeclaim "{metadata["name"]}" is being deleted')
        if not claimed.image:
            await in_thread(medium.make_disk, disk, None)
            return
        if disk.block:
            async with self._deps.sources.machine_image(claimed.image, self._pod) as image:
                await in_thread(medium.make_disk, disk, None, image)
            return
        async with self._deps.sources.image_root(claimed.image, self._pod) as root:
            await in_thread(medium.make_disk, disk, root)

    async def _attach_device(self, claimed: ClaimedStorage, disk: StoredDisk, link: str) -> str:
        async with self._deps.locks.hold(ATTACHING):
            device = await in_thread(self._deps.medium.attach_disk, disk)
            _put_link(link, device)
        await self._report_size(claimed)
        return device

    async def _hand_file(self, claimed: ClaimedStorage, disk: StoredDisk, link: str) -> str:
        """Hand out the disk's file: a virtual machine needs no loop device; the link marks the disk as used.

        The claim's status is updated last: an agent killed before notifies the virtual machine again.
        """
        async with self._deps.locks.hold(ATTACHING):
            file, whole = await in_thread(self._deps.medium.disk_file, disk)
            _put_link(link, file)
        if whole and not _size_is_reported(claimed):
            await self._deps.grown(self._uid, os.path.basename(link), disk.size)
            await self._report_size(claimed)
        return file

    async def _mount_disk(self, claimed: ClaimedStorage, disk: StoredDisk, path: str, read_only: bool) -> None:
        known = await in_thread(self._deps.medium.is_mounted, path)
        whole = await in_thread(self._deps.medium.mount_disk, disk, path, read_only=read_only)
        if not read_only:
            await self._give_to_group(path, known)
        if whole:
            await self._report_size(claimed)

    async def _give_to_group(self, path: str, known: bool) -> None:
        """Set the group once per pod, by its policy; when repeated, only complete an interrupted attempt."""
        policy = (self._pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy")
        lenient = known or policy == "OnRootMismatch"
        await in_thread(give_to_group, path, self._group, only_on_mismatch=lenient)

    async def _report_size(self, claimed: ClaimedStorage) -> None:
        """Report the grown disk in the claim's status."""
        if not _size_is_reported(claimed):
            try:
                await self._deps.sources.resized(claimed.claim, claimed.capacity)
            except SourceUnavailable as error:
                _log.info("disk size not reported yet", claim=claimed.claim["metadata"]["name"], why=str(error))


def _size_is_reported(claimed: ClaimedStorage) -> bool:
    told = ((claimed.claim.get("status") or {}).get("capacity") or {}).get("storage")
    return told is not None and Quantity.parse(told) >= Quantity.parse(claimed.capacity)


def _make_folder(path: str) -> None:
    os.makedirs(path, exist_ok=True)
    if os.stat(path).st_mode & _MODE != _MODE:
        os.chmod(path, _MODE)


def _put_link(link: str, device: str) -> None:
    """Replace the link: one from an earlier boot may name a different disk's device by now."""
    os.makedirs(os.path.dirname(link), 0o750, exist_ok=True)
    fresh = f"{link}~"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    os.symlink(device, fresh)
    os.rename(fresh, link)  # atomic: a kill leaves the old link or the new one
