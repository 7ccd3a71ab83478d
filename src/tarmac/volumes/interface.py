"""The volumes' contract: a pod's volumes by name become paths of the host, and go away cleanly.

`mount` makes every volume there that a container of the pod uses and is safe to repeat: what is there is left alone,
what is half there after kill -9 is finished or redone. `refresh` brings files projected from objects up to date in one
atomic step, so that a reader sees the old set or the new one, and grows disks that shall be larger. `unmount` takes
all of a pod's volumes away, `sweep` those of pods that are not in `live`. A volume that cannot be had yet raises
`VolumeNotReady`; one that never can raises `Unusable`.

The objects behind projections come through `Sources`, which the agent backs with its caches and the API: volumes know
no client. Without an answer from there, what an earlier mount has put in place goes on being used.

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
    """Root: the volume's name and why. The pod's event says it.

    VolumeError ─┬─ Waiting     not yet: worth trying again
                 └─ Unusable    not like this: the pod has to change
    """

    def __init__(self, volume: str, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.volume = volume
        self.reason = reason


class VolumeNotReady(VolumeError):
    """Not yet: an object is missing or a disk is busy elsewhere. Worth trying again."""


class Unusable(VolumeError):
    """Not like this: the pod has to change."""


class SourceUnavailable(Exception):
    """Whether there is such an object is not known now: the server does not answer, or refuses to."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """Where a volume is on the host. A block volume is a device, the others a folder or (of the host) any file.

    A block volume of a virtual machine is the disk's file.

    `read_only`: containers must mount it so, whatever they ask for.
    """

    name: str
    path: str
    read_only: bool = False
    device: bool = False
    owned_by_pod: bool = True  # False for paths of the host: permissions and labels are left alone


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """What a volume takes, and what its filesystem has in all and left. Volumes that share one have the same total."""

    used: int
    capacity: int
    available: int
    inodes_used: int
    inodes: int
    inodes_free: int
    shared: bool = False  # on the node's own filesystem: what is used counts as the pod's ephemeral storage


DiskGrown = Callable[[str, str, int], Awaitable[None]]
"""Told the pod's uid, the volume and the new size when the file of a machine's disk has grown.

It has the machine see it, if one runs. Raises VolumeNotReady, and is then told again.
"""


async def nobody_runs(pod_uid: str, volume: str, size: int) -> None:
    """For nodes without machines."""


class Sources(Protocol):
    """Objects that volumes project. None: there is no such object. All raise SourceUnavailable."""

    async def config_map(self, namespace: str, name: str) -> JsonObject | None: ...
    async def secret(self, namespace: str, name: str) -> JsonObject | None: ...
    async def claim(self, namespace: str, name: str) -> JsonObject | None: ...
    async def persistent_volume(self, name: str) -> JsonObject | None: ...
    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """A service-account token bound to the pod, and when it ends (Unix seconds)."""
        ...

    async def resized(self, claim: JsonObject, capacity: str) -> None:
        """The claim's disk now has this size: its status shall say so."""
        ...

    def image_root(self, image: str, pod: JsonObject, /) -> AbstractAsyncContextManager[str]:
        """A folder with an image's files, read-only, while the context lasts. The image is pulled when need be.

        It is for this pod, which must be one that may have the image.
        """
        ...

    def machine_image(self, image: str, pod: JsonObject, /) -> AbstractAsyncContextManager[str]:
        """A file with a raw disk, the image of an operating system, while the context lasts. It is got when need be."""
        ...


class Volumes(Protocol):
    """A pod's volumes. Calls for one pod follow each other, those for different pods go on at once."""

    async def start(self) -> None:
        """Make the root ready for mounts that containers share with the host. Raises OSError."""
        ...

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]: ...
    async def refresh(self, pod: JsonObject) -> Set[str]:
        """The volumes whose files are others now."""
        ...

    async def unmount(self, pod_uid: str) -> None: ...
    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Unmount the volumes of pods that are not in `live`, and what a killed agent left half done; their uids."""
        ...

    async def subpath(self, volume: MountedVolume, path: str, pod_uid: str, container: str, index: int) -> str:
        """A path of the host for `subPath` that cannot lead out of the volume, whatever links are in it.

        `index` is the place of the volumeMount in its container. What does not exist becomes a folder.
        """
        ...

    async def usage(self, pod_uid: str) -> Mapping[str, VolumeUsage]:
        """By volume; block volumes and paths of the host are not counted."""
        ...

    async def disks(self) -> Sequence[str]:
        """The PersistentVolumes that have a disk here."""
        ...

    async def remove_disk(self, name: str) -> None:
        """Remove the disk of a PersistentVolume. Raises Waiting while a pod uses it."""
        ...

    async def purge(self) -> None:
        """Take every mount and device of this root away, for a node that ends. Disks and folders stay."""
        ...
