"""Ensures one `tarmac up` per data directory: a locked file names the process; the lock ends with it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tarmac.base.lockfiles import open_lock


@contextmanager
def held(path: Path) -> Generator[None]:
    """Hold the lock during the block. Raises OSError that names the holder."""
    lock = open_lock(path)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _named(lock)
            raise OSError(
                f"{path.parent} is in use by process {pid}; `kill {pid}`, or ^C where it runs, stops it and keeps "
                f"the data; `tarmac down --data-dir {path.parent}` stops it and deletes the data"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def holder(path: Path) -> int | None:
    """Return the process that holds the lock, if any."""
    with suppress(FileNotFoundError):
        lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return _named(lock)
        finally:
            os.close(lock)
    return None


def _named(lock: int) -> int:
    return int(os.pread(lock, 32, 0) or b"0")
