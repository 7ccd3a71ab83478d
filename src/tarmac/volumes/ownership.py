"""Gives a volume to the pod's group, so that containers of any user can use it.

Everything in it gets the group and the access that the owner's class would need (read and write, search for folders,
and the set-group-id bit so that new files belong to the group too). A disk may be in use by a second pod that moves
symlinks meanwhile: every file is held by a descriptor that follows no symlink before it is changed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

_READ_WRITE = 0o660
_READ = 0o440
_SEARCH = 0o110
_HOLD = os.O_PATH | os.O_NOFOLLOW


def give_to_group(path: str, group: int | None, *, read_only: bool = False, only_on_mismatch: bool = False) -> None:
    """Give a tree to a group. With `only_on_mismatch`, a correct root means that the rest is correct."""
    if group is None or (only_on_mismatch and _is_right(path, group, read_only)):
        return
    for _base, folders, files, descriptor in os.fwalk(path, topdown=False):
        for name in (*files, *folders):
            with suppress(FileNotFoundError):
                _change(name, descriptor, group, read_only)
    _change(path, None, group, read_only)


def _is_right(path: str, group: int, read_only: bool) -> bool:
    found = os.stat(path)
    needed = _needed(found.st_mode, read_only)
    return stat.S_ISDIR(found.st_mode) and found.st_gid == group and found.st_mode & needed == needed


def _change(name: str, folder: int | None, group: int, read_only: bool) -> None:
    held = os.open(name, _HOLD, dir_fd=folder)
    try:
        found = os.fstat(held)
        if found.st_gid != group:
            os.chown(name, -1, group, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            # Changing the group clears the set-id bits of files, so the mode comes second, whole.
            os.chmod(f"/proc/self/fd/{held}", stat.S_IMODE(found.st_mode) | _needed(found.st_mode, read_only))
    finally:
        os.close(held)


def _needed(mode: int, read_only: bool) -> int:
    needed = _READ if read_only else _READ_WRITE
    return needed | _SEARCH | stat.S_ISGID if stat.S_ISDIR(mode) else needed
