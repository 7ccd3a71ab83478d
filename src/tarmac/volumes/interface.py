"""The volumes' contract: a pod's volumes by name become paths of the host, and go away cleanly.

`mount` makes every volume of a pod there and is safe to repeat: what is there is left alone, what is half there after
kill -9 is finished or redone. `refresh` brings files projected from objects up to date in one atomic step, so that a
reader sees the old set or the new one. `unmount` takes all of a pod's volumes away, `sweep` those of pods that are not
in `live`. A volume that cannot be had yet raises `Waiting`; one that never can raises `Unusable`.

The objects behind projections come through `Sources`, which the agent backs with its caches and the API: volumes know
no client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from tarmac.api.schema import JsonObject


class VolumeError(Exception):
    """Root: the volume's name and why. The pod's event says it."""

    def __init__(self, volume: str, message: str, reason: str = "FailedMount") -> None:
        super().__init__(message)
        self.volume = volume
        self.reason = reason


class Waiting(VolumeError):
    """Not yet: an object is missing or a disk is busy elsewhere. Worth trying again."""


class Unusable(VolumeError):
    """Not like this: the pod has to change."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """Where a volume is on the host. A block volume is a device, the others a folder."""

    path: str
    read_only: bool = False
    device: bool = False
    owned_by_pod: bool = True  # False for paths of the host: permissions and labels are left alone


class Sources(Protocol):
    """Objects that volumes project. None: there is no such object."""

    async def config_map(self, namespace: str, name: str) -> JsonObject | None: ...
    async def secret(self, namespace: str, name: str) -> JsonObject | None: ...
    async def claim(self, namespace: str, name: str) -> JsonObject | None: ...
    async def persistent_volume(self, name: str) -> JsonObject | None: ...
    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """A service-account token bound to the pod, and when it ends (Unix seconds)."""
        ...

    async def image_root(self, image: str) -> str:
        """A read-only folder with an image's files, for populators."""
        ...


class Volumes(Protocol):
    """A pod's volumes."""

    async def mount(self, pod: JsonObject) -> Mapping[str, MountedVolume]: ...
    async def refresh(self, pod: JsonObject) -> None: ...
    async def unmount(self, pod_uid: str) -> None: ...
    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Unmount the volumes of pods that are not in `live`; their uids."""
        ...

    async def subpath(self, volume: MountedVolume, path: str, pod_uid: str, container: str, index: int) -> str:
        """A path of the host for `subPath` that cannot lead out of the volume, whatever links are in it."""
        ...

    async def usage(self, pod_uid: str) -> Mapping[str, tuple[int, int, int]]:
        """By volume: bytes used, bytes in all, inodes used."""
        ...
