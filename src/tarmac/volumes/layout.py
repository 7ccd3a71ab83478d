"""The directory layout under the node's root folder. The pods' part is that of the kubelet.

pods/<uid>/volumes/<plugin>/<volume>                        folders and mounts
pods/<uid>/volumeDevices/<plugin>/<volume>                  links to block devices
pods/<uid>/volume-subpaths/<volume>/<container>/<index>     mounts of parts of volumes
disks/<persistent volume>.img                               disks; `.new` while they are being made
disks/<persistent volume>.nvram                             firmware variables of its virtual machine
disks/staging/<persistent volume>                           mount point of a disk that is being filled
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tarmac.decide.disks import VARIABLES

PLUGINS = {
    "emptyDir": "kubernetes.io~empty-dir",
    "configMap": "kubernetes.io~configmap",
    "secret": "kubernetes.io~secret",
    "downwardAPI": "kubernetes.io~downward-api",
    "projected": "kubernetes.io~projected",
    "persistentVolumeClaim": "kubernetes.io~local-volume",
    "image": "kubernetes.io~image",
}
PARTS = ("volume-subpaths", "volumeDevices", "volumes")
_OURS = frozenset(PARTS)
_IMAGE = ".img"


@dataclass(frozen=True, slots=True)
class VolumeLayout:
    """Paths under `root`, with symlinks resolved: mounts are found by their real path."""

    root: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", os.path.realpath(self.root))

    @property
    def pods(self) -> str:
        """The parent of the pods' folders."""
        return f"{self.root}/pods"

    @property
    def disks(self) -> str:
        """The folder of the disk images."""
        return f"{self.root}/disks"

    def pod(self, uid: str) -> str:
        """Return a pod's folder."""
        return f"{self.pods}/{_component(uid)}"

    def parts(self, uid: str) -> list[str]:
        """Return the folders of a pod that volumes own, in the order of removal."""
        return [f"{self.pod(uid)}/{part}" for part in PARTS]

    def volume(self, uid: str, kind: str, name: str) -> str:
        """Return the path of a volume."""
        return f"{self.pod(uid)}/volumes/{PLUGINS[kind]}/{_component(name)}"

    def device(self, uid: str, name: str) -> str:
        """Return the link to a block volume's device."""
        return f"{self.pod(uid)}/volumeDevices/{PLUGINS['persistentVolumeClaim']}/{_component(name)}"

    def subpath(self, uid: str, volume: str, container: str, index: int) -> str:
        """Return the mount point of a part of a volume for one container."""
        return f"{self.pod(uid)}/volume-subpaths/{_component(volume)}/{_component(container)}/{index}"

    def disk(self, name: str) -> str:
        """Return a disk's image file."""
        return f"{self.disks}/{_component(name)}{_IMAGE}"

    def variables(self, name: str) -> str:
        """Return the firmware variables of the virtual machine that boots from a disk. Removed with the disk."""
        return f"{self.disks}/{_component(name)}{VARIABLES}"

    def staging(self, name: str) -> str:
        """Return the mount point of a disk while it is filled."""
        return f"{self.disks}/staging/{_component(name)}"

    def pods_with_volumes(self) -> set[str]:
        """Return the pods that have anything here; an interrupted removal leaves an empty folder."""
        return {uid for uid in _names(self.pods) if not (names := _names(self.pod(uid))) or not _OURS.isdisjoint(names)}

    def volumes_of(self, uid: str) -> Iterator[tuple[str, str, str]]:
        """Yield (plugin, name, path) of each of a pod's folders."""
        base = f"{self.pod(uid)}/volumes"
        for plugin in _names(base):
            for name in _names(f"{base}/{plugin}"):
                yield plugin, name, f"{base}/{plugin}/{name}"

    def device_links(self) -> Iterator[str]:
        """Yield the links to devices, of all pods."""
        for uid in _names(self.pods):
            base = f"{self.pods}/{uid}/volumeDevices"
            for plugin in _names(base):
                yield from (f"{base}/{plugin}/{name}" for name in _names(f"{base}/{plugin}"))

    def disk_names(self) -> list[str]:
        """Return the complete disks."""
        return [name.removesuffix(_IMAGE) for name in _names(self.disks) if name.endswith(_IMAGE)]


def _names(folder: str) -> list[str]:
    found: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        found = sorted(os.listdir(folder))
    return found


def _component(name: str) -> str:
    """Check one path component. The API allows no such names; a bug elsewhere must not lead out of the root."""
    if not name or "/" in name or name in (".", ".."):
        raise ValueError(f"{name!r} cannot be part of a path")
    return name
