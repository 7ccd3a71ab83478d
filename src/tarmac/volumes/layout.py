"""Where things are under the node's root folder. The pods' part is laid out as kubelets do it.

pods/<uid>/volumes/<plugin>/<volume>                        folders and mounts
pods/<uid>/volumeDevices/<plugin>/<volume>                  links to block devices
pods/<uid>/volume-subpaths/<volume>/<container>/<index>     mounts of parts of volumes
disks/<persistent volume>.img                               disks; `.new` while they are being made
disks/<persistent volume>.nvram                             what the firmware of its machine remembers
disks/staging/<persistent volume>                           where a disk that is being filled is mounted
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
class Layout:
    """Paths under `root`, in which no links are left: mounts are found by their real path."""

    root: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", os.path.realpath(self.root))

    @property
    def pods(self) -> str:
        """Where the pods' folders are."""
        return f"{self.root}/pods"

    @property
    def disks(self) -> str:
        """Where the disks' images are."""
        return f"{self.root}/disks"

    def pod(self, uid: str) -> str:
        """A pod's folder."""
        return f"{self.pods}/{_component(uid)}"

    def parts(self, uid: str) -> list[str]:
        """What of a pod's folder is the volumes' business, in the order of taking it away."""
        return [f"{self.pod(uid)}/{part}" for part in PARTS]

    def volume(self, uid: str, kind: str, name: str) -> str:
        """Where a volume is."""
        return f"{self.pod(uid)}/volumes/{PLUGINS[kind]}/{_component(name)}"

    def device(self, uid: str, name: str) -> str:
        """The link to a block volume's device."""
        return f"{self.pod(uid)}/volumeDevices/{PLUGINS['persistentVolumeClaim']}/{_component(name)}"

    def subpath(self, uid: str, volume: str, container: str, index: int) -> str:
        """Where a part of a volume is mounted for one container."""
        return f"{self.pod(uid)}/volume-subpaths/{_component(volume)}/{_component(container)}/{index}"

    def disk(self, name: str) -> str:
        """A disk's image file."""
        return f"{self.disks}/{_component(name)}{_IMAGE}"

    def variables(self, name: str) -> str:
        """What the firmware of the machine that boots from a disk remembers. It goes with the disk."""
        return f"{self.disks}/{_component(name)}{VARIABLES}"

    def staging(self, name: str) -> str:
        """Where a disk is mounted while it is filled."""
        return f"{self.disks}/staging/{_component(name)}"

    def pods_with_volumes(self) -> set[str]:
        """The pods that have anything here; an empty folder is what an interrupted removal leaves."""
        return {uid for uid in _names(self.pods) if not (names := _names(self.pod(uid))) or not _OURS.isdisjoint(names)}

    def volumes_of(self, uid: str) -> Iterator[tuple[str, str, str]]:
        """(plugin, name, path) of each of a pod's folders."""
        base = f"{self.pod(uid)}/volumes"
        for plugin in _names(base):
            for name in _names(f"{base}/{plugin}"):
                yield plugin, name, f"{base}/{plugin}/{name}"

    def device_links(self) -> Iterator[str]:
        """The links to devices, of all pods."""
        for uid in _names(self.pods):
            base = f"{self.pods}/{uid}/volumeDevices"
            for plugin in _names(base):
                yield from (f"{base}/{plugin}/{name}" for name in _names(f"{base}/{plugin}"))

    def disk_names(self) -> list[str]:
        """The disks that are complete."""
        return [name.removesuffix(_IMAGE) for name in _names(self.disks) if name.endswith(_IMAGE)]


def _names(folder: str) -> list[str]:
    found: list[str] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        found = sorted(os.listdir(folder))
    return found


def _component(name: str) -> str:
    """Names come from the API, which allows no such thing; a mistake elsewhere must not lead out of the root."""
    if not name or "/" in name or name in (".", ".."):
        raise ValueError(f"{name!r} cannot be part of a path")
    return name
