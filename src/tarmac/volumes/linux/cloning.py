"""Initialises a disk with the bytes of a raw image: a reflink if the filesystem supports it, else a sparse copy."""

from __future__ import annotations

import errno
import fcntl
import os

from tarmac.volumes.medium import MediumFault

_FICLONE = 0x40049409
_NOT_SHARED = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS)
_CHUNK_SIZE = 64 << 20


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
