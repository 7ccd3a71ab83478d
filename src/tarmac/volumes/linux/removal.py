"""Removes a folder with hostile content.

Nothing outside of it is touched: no symlink is followed and no mount entered, not even one that appears meanwhile (then
OSError EXDEV). Nested folders are moved to the top and emptied there, so that no depth of nesting exhausts the stack or
a path's length.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator

from tarmac.volumes.linux.syscalls import open_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def remove_folder(path: str) -> None:
    """Remove a folder and everything in it; ignored when it does not exist."""
    try:
        top = os.open(path, _FOLDER | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        numbers = itertools.count()
        while names := os.listdir(top):
            for name in names:
                _remove(top, name, numbers)
    finally:
        os.close(top)
    os.rmdir(path)


def _remove(top: int, name: str, numbers: Iterator[int]) -> None:
    try:
        folder = open_beneath(top, name, _FOLDER, links=False, mounts=False)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        os.unlink(name, dir_fd=top)
        return
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _raise_to_top(folder, entry.name, top, numbers)
                else:
                    os.unlink(entry.name, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _raise_to_top(folder: int, name: str, top: int, numbers: Iterator[int]) -> None:
    while True:
        try:
            os.rename(name, f"..removed-{next(numbers)}", src_dir_fd=folder, dst_dir_fd=top)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
