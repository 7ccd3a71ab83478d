"""The file that the catalogue names: one of the node's own folder, or one that is fetched.

A file of the folder is opened without following a link and must be a plain file: whoever may put a name there must not
make the node read what the name points at. Everything later works with the open file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tarmac.runtimes.interface.errors import ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images.fetch import Told

_PIECE = 1 << 20
# A pipe that somebody put there would be waited for without end.
_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Identity(NamedTuple):
    """What tells that a file has not been changed since it was looked at."""

    device: int
    inode: int
    size: int
    changed: int  # nanoseconds


@contextmanager
def local_file(folder: Path, name: str) -> Generator[int]:
    """A file of the node's folder of images. Raises ImageRefused without one, ImageMismatch if it is no file."""
    if not name or "/" in name or name in (".", ".."):
        raise ImageMismatch(f"{name!r} is not the name of a file")
    try:
        descriptor = os.open(folder / name, _PLAIN)
    except FileNotFoundError as error:
        raise ImageRefused(f"there is no file {name} in the node's folder of machine images") from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ImageMismatch(
                f"{name} in the node's folder of machine images is a link; put the file there"
            ) from error
        raise ImageRefused(f"{name} in the node's folder of machine images: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ImageMismatch(f"{name} in the node's folder of machine images is not a plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def identity_of(descriptor: int) -> Identity:
    """Of an open file."""
    found = os.fstat(descriptor)
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def is_unchanged(path: str, known: Identity) -> bool:
    """Whether a file is still the one that was looked at. A link in its place is not."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == known


def check_sum(descriptor: int, expected: str, told: Told) -> None:
    """Read all of it. Raises ImageMismatch, and what `told` does."""
    digest, place, size = hashlib.sha256(), 0, os.fstat(descriptor).st_size
    while piece := os.pread(descriptor, _PIECE, place):
        digest.update(piece)
        place += len(piece)
        told(place, size)
    found = f"sha256:{digest.hexdigest()}"
    if found != expected:
        raise ImageMismatch(f"the file's sum is {found}, and the catalogue says {expected}")
