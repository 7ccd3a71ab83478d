"""Checks that a file can only have been written by root or by the agent's own user.

A provider's file is run with the agent's rights, so its whole path counts: each directory up to the root, each link,
and the link's target. One directory writable by a different user is enough to replace everything below it. The
exception is a sticky directory owned by root, such as /tmp: there users cannot replace files of other users. The check
cannot be turned off.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_LINKS: Final = 40  # the kernel's limit


class Untrusted(Exception):
    """A path that does not exist, or that a different user could have written. The message names reason and fix."""


def trusted(path: Path, user: int) -> Path:
    """Return the path with all links resolved. Raises Untrusted."""
    if not path.is_absolute():
        raise Untrusted(f"{str(path)!r} is not an absolute path")
    found = _followed(path, user)
    _check_mode(found, os.lstat(found))
    return found


def trusted_program(folder: Path, name: str, user: int) -> Path:
    """Return a program's path in a trusted directory; it may be a link inside of it. Raises Untrusted."""
    path = folder / name
    found = trusted(path, user)
    if not found.is_relative_to(folder):
        raise Untrusted(f"{path} leads to {found}, which is outside of {folder}; put the program there")
    mode = os.lstat(found).st_mode
    if not stat.S_ISREG(mode):
        raise Untrusted(f"{path} is not a regular file")
    if not mode & (stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH):
        raise Untrusted(f"{path} has no execute bit; set it with chmod +x")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        raise Untrusted(f"{path} is setuid or setgid; take that away with chmod ug-s")
    return path


def _followed(path: Path, user: int) -> Path:
    here, ahead, links = Path("/"), list(reversed(path.parts[1:])), 0
    while True:
        found = _look(here)
        if found.st_uid not in (_ROOT, user):
            raise Untrusted(f"{here} belongs to user {found.st_uid}; it has to belong to root or to user {user}")
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise Untrusted(f"{path} has too many links on its way")
            target = Path(os.readlink(here))
            ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            here = Path("/") if target.is_absolute() else here.parent
            continue
        if not ahead:
            return here
        if not _shared_safely(found):
            _check_mode(here, found)
        # `here` contains no links, so its parent is the textual one
        name = ahead.pop()
        here = here.parent if name == ".." else here / name


def _look(path: Path) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise Untrusted(f"{path}: {error.strerror}") from error


def _shared_safely(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == _ROOT and bool(found.st_mode & stat.S_ISVTX)


def _check_mode(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        raise Untrusted(f"{path} can be written by others (mode {mode:04o}); take that away with chmod go-w")
