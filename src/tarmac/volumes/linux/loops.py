"""Loop devices: a file as a block device.

A loop for a filesystem clears itself when its last mount is gone (autoclear), so nothing is left of an agent that was
killed between attaching and mounting: its descriptor was the only user. A loop that is handed out as a device has no
mount to hold it and is cleared explicitly.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import NamedTuple

_CLEAR, _STATUS, _GROW, _CONFIGURE = 0x4C01, 0x4C05, 0x4C07, 0x4C0A
_FREE = 0x4C82  # returns an unused device, or adds one
_AUTOCLEAR, _DIRECT = 4, 16
_INFO = struct.Struct("=QQQQQIIII64s64s32sQQ")
_CONFIG_HEAD = struct.Struct("=II")
_RESERVED = bytes(64)
_MAX_ATTEMPTS = 64
_SYS = "/sys/block"
_DELETED = " (deleted)"  # appended by the kernel to the path of an unlinked file


class Loop(NamedTuple):
    """A device and the file behind it."""

    device: str
    file: str
    clears_itself: bool


def loops(folder: str) -> list[Loop]:
    """Return the loops with files below a folder.

    The kernel reports a path as seen through the mount by which the file was opened. When that mount is gone, files
    directly in the folder are still found, by name and inode. A file at the same path in a different mount namespace is
    a different file: its loop belongs to a different host.
    """
    found: list[Loop] = []
    for name in os.listdir(_SYS):
        if name.startswith("loop"):
            with suppress(OSError), open(f"{_SYS}/{name}/loop/backing_file") as file:
                told = file.read().strip()
                below = told.startswith(folder.rstrip("/") + "/")
                path = told if below else f"{folder}/{os.path.basename(told)}"
                if (below and told.endswith(_DELETED)) or _is_behind(path, f"/dev/{name}"):
                    found.append(Loop(f"/dev/{name}", path, _clears_itself(name)))
    return found


def _clears_itself(name: str) -> bool:
    with open(f"{_SYS}/{name}/loop/autoclear") as file:
        return file.read().strip() == "1"


def _is_behind(path: str, device: str) -> bool:
    wanted = _identity(path)
    descriptor = os.open(device, os.O_RDONLY)
    try:
        return _backing_file(descriptor) == wanted
    finally:
        os.close(descriptor)


@contextmanager
def attached(path: str, *, autoclear: bool) -> Generator[tuple[str, int]]:
    """Attach the file to its present loop or a new one; yields the device and a descriptor that holds it."""
    device, descriptor = _present(path) or _attach(path, autoclear)
    try:
        yield device, descriptor
    finally:
        os.close(descriptor)


def grow(descriptor: int) -> None:
    """Update the device's size after its file has grown."""
    fcntl.ioctl(descriptor, _GROW)


def clear(device: str, path: str) -> None:
    """Detach a device from its file, now or when its last user is gone. Ignored if it has a different file by now."""
    with suppress(FileNotFoundError):
        descriptor = os.open(device, os.O_RDONLY)
        try:
            if _backing_file(descriptor) == _identity(path):
                fcntl.ioctl(descriptor, _CLEAR)
        finally:
            os.close(descriptor)


def _present(path: str) -> tuple[str, int] | None:
    wanted = _identity(path)
    for loop in loops(os.path.dirname(path)):
        if loop.file != path:
            continue
        descriptor = os.open(loop.device, os.O_RDWR)
        if _backing_file(descriptor) == wanted:  # while held, it cannot clear itself any more
            return loop.device, descriptor
        os.close(descriptor)
    return None


def _identity(path: str) -> tuple[int, int]:
    """Return device and inode, as the kernel reports them for a loop."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def _backing_file(descriptor: int) -> tuple[int, int] | None:
    try:
        status = fcntl.ioctl(descriptor, _STATUS, bytes(_INFO.size))
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise
    device, inode, *_ = _INFO.unpack(status)
    return device, inode


def _attach(path: str, autoclear: bool) -> tuple[str, int]:
    backing = os.open(path, os.O_RDWR)
    try:
        for _ in range(_MAX_ATTEMPTS):
            device = f"/dev/loop{_free()}"
            descriptor = os.open(device, os.O_RDWR)
            if _configure(descriptor, backing, path, autoclear):
                return device, descriptor
            os.close(descriptor)
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, "no loop device is free", path)


def _free() -> int:
    control = os.open("/dev/loop-control", os.O_RDWR)
    try:
        return fcntl.ioctl(control, _FREE)
    finally:
        os.close(control)


def _configure(descriptor: int, backing: int, path: str, autoclear: bool) -> bool:
    """Configure a loop; False if a different process has taken it. Tries direct I/O, which avoids double caching."""
    for flags in (_DIRECT, 0):
        flags |= _AUTOCLEAR if autoclear else 0
        info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, os.fsencode(path)[-63:], b"", b"", 0, 0)
        try:
            fcntl.ioctl(descriptor, _CONFIGURE, _CONFIG_HEAD.pack(backing, 0) + info + _RESERVED)
            return True
        except OSError as error:
            if error.errno == errno.EBUSY:
                return False
            if error.errno != errno.EINVAL or not flags & _DIRECT:
                raise
    return False
