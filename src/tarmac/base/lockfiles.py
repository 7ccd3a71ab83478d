"""Lock files that no other user can open.

The right to read a file suffices to lock it (flock): any local user could keep a server from starting.
"""

from __future__ import annotations

import os
from pathlib import Path


def open_lock(path: Path | str) -> int:
    """Open a lock file, mode 0600, and create it if it is missing; returns its descriptor. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:  # created by an earlier version
            os.fchmod(descriptor, 0o600)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
