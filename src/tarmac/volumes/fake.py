"""A medium of plain folders, for tests without root: a folder or a symlink replaces each mount.

Projected files, ownership, sub-paths and removal are the real code.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, SystemClock
from tarmac.volumes.driver import PodVolumes
from tarmac.volumes.interface import SourceUnavailable
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.medium import StoredDisk
from tarmac.volumes.node import Facts, VolumeNode


@dataclass(slots=True)
class FakeSources:
    """Objects by `namespace/name`, or by name. `away` makes every request fail."""

    config_maps: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    secrets: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    claims: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    persistent_volumes: dict[str, JsonObject] = field(default_factory=dict[str, JsonObject])
    images: dict[str, str] = field(default_factory=dict[str, str])
    machine_images: dict[str, str] = field(default_factory=dict[str, str])
    tokens: int = 0
    sizes_told: dict[str, str] = field(default_factory=dict[str, str])
    away: bool = False

    async def config_map(self, namespace: str, name: str) -> JsonObject | None:
        """Read from `config_maps`."""
        return self._found(self.config_maps, f"{namespace}/{name}")

    async def secret(self, namespace: str, name: str) -> JsonObject | None:
        """Read from `secrets`."""
        return self._found(self.secrets, f"{namespace}/{name}")

    async def claim(self, namespace: str, name: str) -> JsonObject | None:
        """Read from `claims`."""
        return self._found(self.claims, f"{namespace}/{name}")

    async def persistent_volume(self, name: str) -> JsonObject | None:
        """Read from `persistent_volumes`."""
        return self._found(self.persistent_volumes, name)

    async def token(self, pod: JsonObject, audience: str, seconds: int) -> tuple[str, float]:
        """Return a text that names its parameters; `tokens` counts rotations."""
        self._found({}, "")
        return f"token-{self.tokens}/{pod['metadata']['name']}/{audience}/{seconds}", 4e9

    async def resized(self, claim: JsonObject, capacity: str) -> None:
        """Record in `sizes_told`."""
        self._found({}, "")
        self.sizes_told[claim["metadata"]["name"]] = capacity

    @asynccontextmanager
    async def image_root(self, image: str, pod: JsonObject) -> AsyncGenerator[str]:
        """Yield a folder from `images`."""
        if image not in self.images:
            raise SourceUnavailable(f'image "{image}" cannot be had')
        yield self.images[image]

    @asynccontextmanager
    async def machine_image(self, image: str, pod: JsonObject) -> AsyncGenerator[str]:
        """Yield a file from `machine_images`."""
        if image not in self.machine_images:
            raise SourceUnavailable(f'image "{image}" cannot be had')
        yield self.machine_images[image]

    def _found(self, among: dict[str, JsonObject], key: str) -> JsonObject | None:
        if self.away:
            raise SourceUnavailable("the server does not answer")
        return among.get(key)


class FolderMedium:
    """Disks are folders under `disks`; a block device is an empty file. `busy` paths are released only lazily."""

    def __init__(self, layout: VolumeLayout) -> None:
        self._layout = layout
        self.busy: set[str] = set()
        self.memory_sizes: dict[str, int | None] = {}

    def prepare(self) -> None:
        """Create the folders."""
        os.makedirs(self._layout.pods, exist_ok=True)
        os.makedirs(self._layout.disks, exist_ok=True)

    def memory(self, path: str, size: int | None) -> None:
        """Create a folder; its size is recorded in `memory_sizes`."""
        self.memory_sizes[path] = size
        os.makedirs(path, exist_ok=True)

    def has_disk(self, disk: StoredDisk) -> bool:
        """True if the folder exists."""
        return os.path.exists(self._layout.disk(disk.name))

    def make_disk(self, disk: StoredDisk, files: str | None, image: str | None = None) -> None:
        """Create under a temporary name first, like the real medium."""
        unfinished = self._layout.disk(disk.name) + ".new"
        shutil.rmtree(unfinished, ignore_errors=True)
        if files is None:
            os.mkdir(unfinished)
        else:
            shutil.copytree(files, unfinished, symlinks=True)
        if image is not None:
            shutil.copy(image, f"{unfinished}/device")
        os.rename(unfinished, self._layout.disk(disk.name))

    def mount_disk(self, disk: StoredDisk, path: str, *, read_only: bool) -> bool:
        """Create a symlink."""
        _link(self._layout.disk(disk.name), path)
        return True

    def attach_disk(self, disk: StoredDisk) -> str:
        """Create a file beside the disk."""
        device = f"{self._layout.disk(disk.name)}/device"
        with open(device, "ab"):
            return device

    def disk_file(self, disk: StoredDisk) -> tuple[str, bool]:
        """Return the same file."""
        device = self.attach_disk(disk)
        os.truncate(device, max(disk.size, os.stat(device).st_size))
        return device, True

    def disk_in_use(self, name: str) -> bool:
        """True if a pod has a symlink to it."""
        disk = self._layout.disk(name)
        paths = (path for uid in self._layout.pods_with_volumes() for _, _, path in self._layout.volumes_of(uid))
        links = (*paths, *self._layout.device_links())
        return any(os.path.islink(path) and os.readlink(path).startswith(disk) for path in links)

    def remove_disk(self, name: str) -> None:
        """Remove the folder."""
        shutil.rmtree(self._layout.disk(name), ignore_errors=True)

    def detach_unused(self, linked: Collection[str]) -> None:
        """Do nothing: there are no devices."""

    def bind(self, source: int, target: str, *, read_only: bool = False) -> None:
        """Create a symlink to the descriptor's path."""
        _link(os.readlink(f"/proc/self/fd/{source}"), target)

    def is_mounted(self, path: str) -> bool:
        """True if there is a symlink or, for memory, a folder."""
        return os.path.lexists(path)

    def mounted_pods(self) -> set[str]:
        """Return nothing: there are no mounts."""
        return set()

    def release(self, path: str, *, lazy: bool = False) -> Sequence[str]:
        """Return the busy paths; symlinks are removed with their folder."""
        found = [each for each in self.busy if each.startswith(path)]
        if lazy:
            self.busy.difference_update(found)
        return found

    def close(self) -> None:
        """Do nothing: there is nothing to undo."""


def _link(source: str, path: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        os.unlink(path)
    os.symlink(source, path)


def fake_volumes(root: str, sources: FakeSources, facts: Facts | None = None, clock: Clock | None = None) -> PodVolumes:
    """Return volumes under a folder, without mounts."""
    layout = VolumeLayout(root)
    return PodVolumes(
        layout, FolderMedium(layout), sources, facts or (lambda: VolumeNode("node")), clock or SystemClock()
    )
