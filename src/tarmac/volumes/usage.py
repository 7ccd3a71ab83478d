"""Disk usage of a volume.

A volume with a separate filesystem reports its own. A folder on the node's filesystem is walked, as there are no
quotas; the walk ends after a bounded number of entries, so that a pod with millions of files costs only itself.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tarmac.base.log import log
from tarmac.volumes.interface import VolumeUsage

MAX_ENTRIES = 200_000
_BLOCK = 512
_log = log("volumes")


def measure(path: str, root: str) -> VolumeUsage:
    """Measure a volume; `root` is the node's own folder."""
    whole = os.statvfs(path)
    capacity, available = whole.f_blocks * whole.f_frsize, whole.f_bavail * whole.f_frsize
    if os.stat(path).st_dev != os.stat(root).st_dev:
        used = (whole.f_blocks - whole.f_bfree) * whole.f_frsize
        inodes = whole.f_files - whole.f_ffree
        return VolumeUsage(used, capacity, available, inodes, whole.f_files, whole.f_ffree)
    used, inodes = _walk(path)
    return VolumeUsage(used, capacity, available, inodes, whole.f_files, whole.f_ffree, shared=True)


def _walk(path: str) -> tuple[int, int]:
    own = os.stat(path)
    used, inodes = own.st_blocks * _BLOCK, 1
    folders, linked = [path], set[int]()
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                if found.st_dev != own.st_dev or (found.st_nlink > 1 and found.st_ino in linked):
                    continue
                used, inodes = used + found.st_blocks * _BLOCK, inodes + 1
                if inodes >= MAX_ENTRIES:
                    _log.info("volume has too many files, counting stopped", path=path, counted=inodes)
                    return used, inodes
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif found.st_nlink > 1:
                    linked.add(found.st_ino)
    return used, inodes
