"""Resolves a pattern of paths to disks of this machine."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence

from tarmac.decide.qosclasses.blockio import Disk


def disks(pattern: str) -> Sequence[Disk]:
    """Return the block devices that the paths lead to, symbolic links followed; each once."""
    found: dict[Disk, None] = {}
    for path in sorted(glob.glob(pattern)):
        try:
            status = os.stat(path)
        except OSError:
            continue  # a dangling link
        if stat.S_ISBLK(status.st_mode):
            found[os.major(status.st_rdev), os.minor(status.st_rdev)] = None
    return list(found)
