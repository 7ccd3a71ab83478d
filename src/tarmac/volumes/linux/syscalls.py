"""System calls missing in Python: mount, umount2 and openat2, raising OSError as `os` does."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import cast

MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_SHARED = 1 << 20

MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_OPENAT2 = 437  # on every architecture
_MAX_RETRIES = 32

_libc = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2)."""
    done: int = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    _check(done, target)


def umount(target: str, *, lazy: bool = False) -> None:
    """umount2(2), never following a link in the last component."""
    done: int = _libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW | (MNT_DETACH if lazy else 0))
    _check(done, target)


def open_beneath(folder: int, path: str, flags: int, *, links: bool = True, mounts: bool = True) -> int:
    """Open a path beneath the folder, regardless of symlinks in it; OSError EXDEV otherwise.

    Without `links` none is followed at all (ELOOP), without `mounts` none is entered (EXDEV). A concurrent rename makes
    the kernel return EAGAIN: then the call is retried.
    """
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS
    resolve |= (0 if links else RESOLVE_NO_SYMLINKS) | (0 if mounts else RESOLVE_NO_XDEV)
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    found = -1
    for _ in range(_MAX_RETRIES):
        found = cast("int", _libc.syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how)))
        if found >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    _check(found, path)
    return found


def _check(result: int, path: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
