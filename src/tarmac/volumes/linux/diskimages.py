"""Disks of a node: image files with ext4 in them (which makes their size a real limit), or block devices.

A disk is made under a temporary name, filled, synced and renamed: a disk with its final name is complete, and an
unfinished one left by a killed agent is made again. Making it again discards the unfinished file, which no pod can have
seen, so a populated disk is filled exactly once.

Images are sparse and give freed blocks back, but the node never promises more space than it has: a disk is made, and
grows, only if the node has room for it beside the unfilled parts of all other disks.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from threading import Lock

from tarmac.base.log import log
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux import ext4, loops
from tarmac.volumes.linux.copying import copy_tree
from tarmac.volumes.linux.mountinfo import mount_at, mounts
from tarmac.volumes.linux.syscalls import MS_BIND, MS_RDONLY, MS_REMOUNT, mount, umount
from tarmac.volumes.medium import MediumFault, StoredDisk

# Freed blocks are given back to the node.
_OPTIONS = "discard,errors=remount-ro"
_SLACK = 1 << 20  # a filesystem may be smaller than its device by less than this

_log = log("disks")

_FICLONE = 0x40049409
_NOT_SHARED = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_CHUNK_SIZE = 64 << 20


class LinuxDisks:
    """The disks under one root."""

    def __init__(self, layout: VolumeLayout) -> None:
        self._layout = layout
        self._promising = Lock()

    def exists(self, disk: StoredDisk) -> bool:
        """True if the disk is complete."""
        if disk.device:
            return disk.block or bool(ext4.signature(disk.device))
        return os.path.exists(self._layout.disk(disk.name))

    def make(self, disk: StoredDisk, files: str | None, begin: str | None = None) -> None:
        """Make the disk if missing; with the files of a folder, or beginning with the bytes of a file."""
        if self.exists(disk):
            return
        if disk.device:
            ext4.make(disk.device)
            return
        path = self._layout.disk(disk.name)
        unfinished = path.removesuffix(".img") + ".new"
        os.makedirs(self._layout.disks, 0o750, exist_ok=True)
        self.discard_unfinished(disk.name)
        try:
            self._make(disk, unfinished, files, begin)
        except BaseException:
            self.discard_unfinished(disk.name)
            raise
        # The content is synced by now: from the rename on, the disk counts as complete.
        os.rename(unfinished, path)
        self.discard_unfinished(disk.name)
        _sync(self._layout.disks)

    def discard_unfinished(self, name: str) -> None:
        """Remove the remnants of an interrupted `make`."""
        staging = self._layout.staging(name)
        while mount_at(staging):
            umount(staging, lazy=True)
        with suppress(FileNotFoundError):
            os.rmdir(staging)
        with suppress(FileNotFoundError):
            os.unlink(self._layout.disk(name).removesuffix(".img") + ".new")

    def unfinished(self) -> list[str]:
        """Return the names of unfinished disks."""
        with suppress(FileNotFoundError):
            return [name.removesuffix(".new") for name in os.listdir(self._layout.disks) if name.endswith(".new")]
        return []

    def mount(self, disk: StoredDisk, path: str, read_only: bool) -> bool:
        """Mount and grow the disk; True if it has its full size."""
        if disk.device:
            _mount_device(disk.device, path, read_only)
            return True
        image = self._layout.disk(disk.name)
        grown = self._extend(image, disk.size)
        with loops.attached(image, autoclear=True) as (device, descriptor):
            if grown:
                loops.grow(descriptor)
            _mount_device(device, path, read_only)
            return os.stat(image).st_size >= disk.size and (not _has_room(device) or _grow_mounted(device))

    def attach(self, disk: StoredDisk) -> str:
        """Return its block device."""
        if disk.device:
            return disk.device
        image = self._layout.disk(disk.name)
        grown = self._extend(image, disk.size)
        with loops.attached(image, autoclear=False) as (device, descriptor):
            if grown:
                loops.grow(descriptor)
            return device

    def file(self, disk: StoredDisk) -> tuple[str, bool]:
        """Return the file for a virtual machine, and True if it has its full size."""
        if disk.device:
            return disk.device, True
        image = self._layout.disk(disk.name)
        self._extend(image, disk.size)
        return image, os.stat(image).st_size >= disk.size

    def in_use(self, name: str) -> bool:
        """True if the disk is mounted or attached, or a pod has a link to its file."""
        image = self._layout.disk(name)
        for link in self._layout.device_links():
            with suppress(FileNotFoundError):  # its pod is being removed
                if os.readlink(link) == image:
                    return True
        return any(loop.file == image for loop in loops.loops(self._layout.disks))

    def detach_unused(self, linked: set[str]) -> None:
        """Clear loops without a link. Loops for mounts clear themselves."""
        for loop in loops.loops(self._layout.disks):
            if not loop.clears_itself and loop.device not in linked:
                loops.clear(loop.device, loop.file)

    def _make(self, disk: StoredDisk, image: str, files: str | None, begin: str | None) -> None:
        with self._promising:
            left = self._left()
            if left < disk.size:
                raise MediumFault(f"the node has {left} bytes left for disks, this one needs {disk.size}")
            _allocate(image, disk.size)
        if begin is not None:
            copy_disk(begin, image)
        elif not disk.block or disk.filesystem:
            ext4.make(image, disk.label if disk.block else "")
        if files is not None:
            self._fill(disk.name, image, files)
        _sync(image)

    def _extend(self, image: str, size: int) -> bool:
        """Grow the file. Disks never shrink. Without room on the node, the disk keeps its size until there is."""
        with self._promising:
            more = size - os.stat(image).st_size
            if more <= 0:
                return False
            left = self._left()
            if left < more:
                _log.warning(
                    "disk cannot grow, no space left on the node", image=os.path.basename(image), left=left, needed=more
                )
                return False
            os.truncate(image, size)
        return True

    def _left(self) -> int:
        """Return the bytes that are not promised to any disk."""
        room = os.statvfs(self._layout.disks)
        left = room.f_bavail * room.f_frsize
        for image in os.scandir(self._layout.disks):
            with suppress(FileNotFoundError):  # removed meanwhile
                found = image.stat()
                left -= max(0, found.st_size - found.st_blocks * 512)
        return left

    def _fill(self, name: str, image: str, files: str) -> None:
        staging = self._layout.staging(name)
        os.makedirs(staging, 0o700, exist_ok=True)
        with loops.attached(image, autoclear=True) as (device, _):
            mount(device, staging, "ext4")
            try:
                left_out = copy_tree(files, staging)
            finally:
                umount(staging)
        if left_out:
            _log.info("special files of an image left out", disk=name, files=left_out)


def _allocate(path: str, size: int) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def _mount_device(device: str, path: str, read_only: bool) -> None:
    os.makedirs(path, 0o750, exist_ok=True)
    present = mount_at(path)
    if present is None:
        if not any(each.source == device for each in mounts()):
            _check(device)
            if _has_room(device):
                ext4.grow(device, mounted=False)
        mount(device, path, "ext4", 0, _OPTIONS)
    if read_only and not (present and present.read_only):
        mount("", path, "", MS_BIND | MS_REMOUNT | MS_RDONLY)


def _check(device: str) -> None:
    found = ext4.state(device)
    if found is None:
        raise MediumFault(f"there is no ext4 filesystem on {device}, but {ext4.signature(device) or 'nothing known'}")
    if not found.clean:
        _log.info("checking a disk that was not unmounted", device=device)
        ext4.repair(device)


def _has_room(device: str) -> bool:
    """True if the device is larger than its filesystem: it has just grown, or an agent was killed right after."""
    descriptor = os.open(device, os.O_RDONLY)
    try:
        room = os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)
    found = ext4.state(device)
    return found is not None and room - found.size >= _SLACK


def _grow_mounted(device: str) -> bool:
    """Grow a mounted filesystem; False if it has to wait until the disk is unused."""
    if not ext4.can_grow_mounted():
        _log.debug("disk will grow at its next mount: CAP_SYS_RESOURCE is missing", device=device)
        return False
    ext4.grow(device, mounted=True)
    return True


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_disk(source: str, target: str) -> None:
    """Copy a file into the beginning of a new one, which has its full size already. Raises MediumFault."""
    origin = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        made = os.open(target, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _copy(origin, made)
        finally:
            os.close(made)
    finally:
        os.close(origin)


def _copy(origin: int, made: int) -> None:
    needed, size = os.fstat(origin).st_size, os.fstat(made).st_size
    if needed > size:
        raise MediumFault(f"the image has {needed} bytes, and the disk only {size}")
    if not _shared(origin, made):
        _copy_data(origin, made, needed)
    os.ftruncate(made, size)  # a reflink has set the size of the source


def _shared(origin: int, made: int) -> bool:
    try:
        fcntl.ioctl(made, _FICLONE, origin)
    except OSError as error:
        if error.errno not in _NOT_SHARED:
            raise
        return False
    return True


def _copy_data(origin: int, made: int, end: int) -> None:
    place = 0
    while place < end:
        try:
            place = os.lseek(origin, place, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        until = min(os.lseek(origin, place, os.SEEK_HOLE), end)
        while place < until:
            place += _copy_chunk(origin, made, place, min(until - place, _CHUNK_SIZE))


def _copy_chunk(origin: int, made: int, place: int, count: int) -> int:
    try:
        done = os.copy_file_range(origin, made, count, place, place)
    except OSError as error:
        if error.errno not in _NOT_SHARED:
            raise
        done = os.pwrite(made, os.pread(origin, min(count, 1 << 20), place), place)
    if not done:
        raise MediumFault("the image became shorter while it was copied")
    return done
