"""Private files: readable by their owner only from the start, and replaced atomically."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarmac.base.lockfiles import open_lock


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically, mode 0600."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename: after a power failure the name could otherwise stand for an empty file.
            os.fsync(file.fileno())
        # A kill before this line leaves the temporary file, mode 0600, which no code reads. The directory is not
        # synced: after a power failure the old file, complete as well, may be back.
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def directory_lock(directory: Path) -> Generator[None]:
    """Lock the directory against other processes that share it, so that two servers never create two authorities."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(open_lock(directory / ".lock"), "wb") as file:
        # Blocks the calling thread while another process holds it. The kernel releases it when the holder dies, by
        # kill -9 too.
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
