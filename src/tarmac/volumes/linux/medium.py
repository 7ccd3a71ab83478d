"""The medium on Linux: tmpfs, loop devices, bind mounts."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress

from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux.diskimages import LinuxDisks
from tarmac.volumes.linux.mountinfo import holder_of, mount_at, mounts
from tarmac.volumes.linux.syscalls import MS_BIND, MS_RDONLY, MS_REC, MS_REMOUNT, MS_SHARED, mount, umount
from tarmac.volumes.medium import StoredDisk

_GONE = (errno.EINVAL, errno.ENOENT)


class LinuxMedium:
    """Implements `Medium`. Needs CAP_SYS_ADMIN."""

    def __init__(self, layout: VolumeLayout) -> None:
        self._layout = layout
        self._disks = LinuxDisks(layout)

    def prepare(self) -> None:
        """Make the root a shared mount: mounts must propagate to running containers and back."""
        root = self._layout.root
        os.makedirs(self._layout.pods, 0o750, exist_ok=True)
        if not holder_of(root).shared:
            try:
                if mount_at(root) is None:
                    mount(root, root, "", MS_BIND | MS_REC)
                mount("", root, "", MS_SHARED | MS_REC)
            except OSError as error:
                why = f"cannot make it a shared mount ({error.strerror}), which mounts of containers need"
                raise OSError(error.errno, why, root) from error
        for name in self._disks.unfinished():
            self._disks.discard_unfinished(name)

    def memory(self, path: str, size: int | None) -> None:
        """Mount a tmpfs."""
        os.makedirs(path, 0o777, exist_ok=True)
        if mount_at(path) is not None:
            return
        options = "mode=1777" if size is None else f"mode=1777,size={size}"
        try:
            mount("tmpfs", path, "tmpfs", 0, f"{options},noswap")
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            mount("tmpfs", path, "tmpfs", 0, options)

    def has_disk(self, disk: StoredDisk) -> bool:
        """True if the disk is complete."""
        return self._disks.exists(disk)

    def make_disk(self, disk: StoredDisk, files: str | None, image: str | None = None) -> None:
        """Make an image file, mostly with ext4."""
        self._disks.make(disk, files, image)

    def mount_disk(self, disk: StoredDisk, path: str, *, read_only: bool) -> bool:
        """Mount through a loop device."""
        return self._disks.mount(disk, path, read_only)

    def attach_disk(self, disk: StoredDisk) -> str:
        """Attach as a loop device."""
        return self._disks.attach(disk)

    def disk_file(self, disk: StoredDisk) -> tuple[str, bool]:
        """Return the image file, as large as the node has room for."""
        return self._disks.file(disk)

    def disk_in_use(self, name: str) -> bool:
        """True if a disk has a loop device, or a virtual machine has its file."""
        return self._disks.in_use(name)

    def remove_disk(self, name: str) -> None:
        """Remove the image file last: files beside it are found by it."""
        for path in (self._layout.variables(name), self._layout.disk(name)):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def detach_unused(self, linked: Collection[str]) -> None:
        """Clear loop devices."""
        self._disks.detach_unused(set(linked))

    def bind(self, source: int, target: str, *, read_only: bool = False) -> None:
        """Bind by descriptor, so that no symlink can interfere. An identical mount is kept."""
        held = os.fstat(source)
        if (present := mount_at(target)) is not None:
            found = os.stat(target)
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino) and present.read_only >= read_only:
                return
            self.release(target, lazy=True)
        _make_target(target, stat.S_ISDIR(held.st_mode))
        mount(f"/proc/self/fd/{source}", target, "", MS_BIND)
        if read_only:
            mount("", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY)

    def is_mounted(self, path: str) -> bool:
        """True if the path is a mount."""
        return mount_at(path) is not None

    def mounted_pods(self) -> set[str]:
        """Return pods with mounts, also those without a folder."""
        pods = self._layout.pods + "/"
        return {each.path.removeprefix(pods).partition("/")[0] for each in mounts(pods)}

    def release(self, path: str, *, lazy: bool = False) -> Sequence[str]:
        """Unmount in reverse order of mounting."""
        busy: list[str] = []
        for each in reversed(mounts(path)):
            try:
                umount(each.path, lazy=lazy)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    busy.append(each.path)
                elif error.errno not in _GONE:
                    raise
        return busy

    def close(self) -> None:
        """Unmount the root last: through it the kernel knows the devices' files."""
        root = self._layout.root
        for part in (self._layout.pods, self._layout.disks):
            self.release(part, lazy=True)
        self.detach_unused(())
        self.release(root, lazy=True)


def _make_target(target: str, folder: bool) -> None:
    """Create a mount point of the same type as the source."""
    if os.path.lexists(target) and os.path.isdir(target) != folder:
        (os.unlink if folder else os.rmdir)(target)
    if folder:
        os.makedirs(target, 0o750, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), 0o750, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
