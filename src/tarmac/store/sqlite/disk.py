"""File system operations of the driver: lock, preallocation, directory sync, free space."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tarmac.base.lockfiles import open_lock
from tarmac.base.log import log
from tarmac.store.interface import Unavailable

_log = log("store.sqlite")

_ZEROS = bytes(1 << 20)
_MIN_FREE_BYTES = 1 << 20  # bytes; a file system with less counts as full


def take_lock(path: Path) -> int:
    """Lock the store: two servers on one file would each trust their own memory. The kernel frees a dead holder's lock.

    A separate file, since closing any descriptor of the database would drop SQLite's locks.
    """
    try:
        lock = open_lock(f"{path}.lock")
    except OSError as error:
        raise Unavailable(f"cannot open {path}.lock: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise Unavailable(f"{path} is in use by another server (process {holder})") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def reserve(file: int, size: int) -> None:
    """Fill an empty file with zeros; without enough room it stays empty and grows on demand."""
    try:
        for offset in range(0, size, len(_ZEROS)):
            os.pwrite(file, _ZEROS[: size - offset], offset)
        os.fdatasync(file)
    except OSError as error:
        os.ftruncate(file, 0)
        _log.warning("write-ahead log cannot be preallocated, writes will take longer", reason=error.strerror)


def sync_directory(folder: Path) -> None:
    """Make the names in a directory durable: a file whose name is lost is lost."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def lacks_room(folder: Path) -> bool:
    """True if the file system is full for this process; root may use the reserved blocks."""
    found = os.statvfs(folder)
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize < _MIN_FREE_BYTES
