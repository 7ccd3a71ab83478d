"""Resolves a path beneath a volume without leaving it, even if its owner changes symlinks meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from tarmac.volumes.linux.syscalls import open_beneath


class PathEscapes(Exception):
    """The path leads out of the volume."""


def hold(volume: str, path: str) -> int:
    """Open a path in a volume (O_PATH); missing folders are created. Raises PathEscapes, OSError."""
    base = os.open(volume, os.O_PATH | os.O_DIRECTORY)
    try:
        with suppress(FileNotFoundError):
            return _open(base, path)
        _make(base, path, stat.S_IMODE(os.fstat(base).st_mode))
        return _open(base, path)
    finally:
        os.close(base)


def _open(base: int, path: str, flags: int = 0) -> int:
    try:
        return open_beneath(base, path, os.O_PATH | flags)
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise PathEscapes(f'subPath "{path}" leads out of the volume') from error
        raise


def _make(base: int, path: str, mode: int) -> None:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathEscapes(f'subPath "{path}" must not contain ".."')
    for count, part in enumerate(parts):
        parent = _open(base, "/".join(parts[:count]) or ".", os.O_DIRECTORY)
        try:
            _make_folder(parent, part, mode)
        finally:
            os.close(parent)


def _make_folder(parent: int, name: str, mode: int) -> None:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        # The umask must not apply to the mode, and a symlink put in its place must not be followed.
        made = open_beneath(parent, name, os.O_RDONLY | os.O_DIRECTORY, links=False)
        try:
            os.fchmod(made, mode)
        finally:
            os.close(made)
