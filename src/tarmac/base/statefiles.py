"""State files: read whole and within a limit, and replaced atomically.

Neither follows a link nor waits at a pipe: a file planted in place of the state must not stop the process, fill its
memory, or make it write to a different file.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_state(path: Path, limit: int) -> bytes:
    """Return the content of a regular file of at most `limit` bytes. Raises OSError."""
    # O_NONBLOCK: opening a pipe would wait for a writer
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"is larger than {limit} bytes")
    return content


def replace_state(path: Path, content: bytes) -> None:
    """Replace the file atomically, mode 0600, without syncing: it survives a killed process. Raises OSError."""
    unfinished = path.with_suffix(".new")
    unfinished.unlink(missing_ok=True)  # of a process that was killed before the replacement
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    unfinished.replace(path)
