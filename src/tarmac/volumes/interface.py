"""The volumes' contract: a pod's volumes become paths of the host by name, and are removed cleanly.

`mount` provides every volume that a container of the pod uses and is idempotent: present volumes are left alone,
volumes half mounted at a kill -9 are completed or redone. `refresh` updates files projected from objects in one atomic
step, so that a reader sees the old set or the new one, and grows disks with a larger size. `unmount` removes all of a
pod's volumes, `sweep` those of pods that are not in `live`. A volume that is not available yet raises `VolumeNotReady`;
one that never can be raises `Unusable`.

The objects behind projections come through `Sources`, which the agent backs with its caches and the API: volumes know
no client. While sources are unavailable, the contents of an earlier mount stay in use.

A claim's disk is an image file of this node, named after its PersistentVolume, or the block device that the volume's
`local.path` names. It is made when the first pod mounts it and removed by `remove_disk`. To containers, a volume of
mode Block is a loop device; a virtual machine gets the file itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from tarmac.api.schema import JsonObject


class VolumeError(Exception):
    """Root: the volume's name and the reason. The pod's event reports it.

    VolumeError ─┬─ VolumeNotReady  not yet: worth retrying
                 └─ Unusable        not like this: the pod has to change
    """

    def __init__(self, volume: str, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.volume = volume
        self.reason = reason


class VolumeNotReady(VolumeError):
    """An object is missing or a disk is in use elsewhere. Worth retrying."""


class Unusable(VolumeError):
    """The pod has to change."""


class SourceUnavailable(Exception):
    """The existence of an object is unknown: the server does not respond, or refuses."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """The location of a volume on the host. A block volume is a device, all others a folder or (host paths) any file.

    A block volume of a virtual machine is the disk's file.

    `read_only`: containers must mount it read-only, regardless of their request.
    """

    name: str
    path: str
    read_only: bool = False
    device: bool = False
    owned_by_pod: bool = True  # False for host paths: permissions and labels are left alone


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """Usage of a volume, and size and free space of its filesystem. Volumes that share one have the same total."""

    used: int
    capacity: int
    available: int
    inodes_used: int
    inodes: int
    inodes_free: int
    shared: bool = False  # on the node's own filesystem: its usage counts as the pod's ephemeral storage


DiskGrown = Callable[[str, str, int], Awaitable[None]]
"""Called with the pod's uid, the volume and the new size when the file of a VM's disk has grown.

It notifies the VM, if one runs. Raises VolumeNotReady, and is then called again.
"""


async def no_machines(pod_uid: str, volume: str, size: int) -> None:
    """Do nothing: for nodes without virtual machines."""


class ObjectSources(Protocol):
    """Objects that pods refer to. None: there is no such object. All raise SourceUnavailable."""

    async def config_map(self, namespace: str, name: str) -> JsonObject | None: ...
    async def secret(self, namespace: str, name: str) -> JsonObject | None: ...
    async def claim(self, namespace: str, name: str) -> JsonObject | None: ...
    async def persistent_volume(self, name: str) -> JsonObject | None: ...
    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """Return a service-account token bound to the pod, and its expiry (Unix seconds)."""
        ...

    async def resized(self, claim: JsonObject, capacity: str) -> None:
        """Report the new size of the claim's disk in its status."""
        ...


class Sources(ObjectSources, Protocol):
    """Everything that volumes are made from: objects, and the files of images."""

    def image_root(self, image: str, pod: JsonObject, /) -> AbstractAsyncContextManager[str]:
        """Provide a read-only folder with an image's files for the duration of the context. Pulls the image if needed.

        It is for this pod, which must be allowed to use the image.
        """
        ...

    def machine_image(self, image: str, pod: JsonObject, /) -> AbstractAsyncContextManager[str]:
        """Provide a raw disk file, an operating-system image, for the duration of the context.

        Downloads it if needed.
        """
        ...


class Volumes(Protocol):
    """A pod's volumes. Calls for one pod are serialised, those for different pods run concurrently."""

    async def start(self) -> None:
        """Prepare the root for mounts that containers share with the host. Raises OSError."""
        ...

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]: ...
    async def refresh(self, pod: JsonObject) -> Set[str]:
        """Update volumes; returns those with changed files."""
        ...

    async def unmount(self, pod_uid: str) -> None: ...
    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Unmount the volumes of pods that are not in `live`, and remnants of a killed agent; returns their uids."""
        ...

    async def subpath(self, volume: MountedVolume, path: str, pod_uid: str, container: str, index: int) -> str:
        """Return a host path for `subPath` that cannot leave the volume, whatever symlinks it contains.

        `index` is the index of the volumeMount in its container. A missing path becomes a folder.
        """
        ...

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        """Return usage by volume; block volumes and host paths are not counted."""
        ...

    async def disks(self) -> Sequence[str]:
        """Return the PersistentVolumes that have a disk here."""
        ...

    async def remove_disk(self, name: str) -> None:
        """Remove the disk of a PersistentVolume. Raises VolumeNotReady while a pod uses it."""
        ...

    async def purge(self) -> None:
        """Remove every mount and device of this root, for a node that is removed. Disks and folders stay."""
        ...
