"""The file that the catalogue names, from the node's own directory or fetched, and its checksum.

A file of the directory is opened without following links and must be a regular file: a user who may create a name there
must not make the node read the link's target. All later steps use the open file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tarmac.runtimes.interface.errors import ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images.fetch import Report

_CHUNK_SIZE = 1 << 20
_name = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}").fullmatch
_digits = re.compile(r"[0-9a-f]{64}").fullmatch
# Opening a named pipe would block for ever without O_NONBLOCK.
_PLAIN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class FileIdentity(NamedTuple):
    """Attributes that reveal a change of a file."""

    device: int
    inode: int
    size: int
    changed: int  # nanoseconds


@contextmanager
def local_file(folder: Path, name: str) -> Generator[int]:
    """Open a file of the node's image directory. Raises ImageRefused if it is missing, ImageMismatch if not regular."""
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


def identity_of(descriptor: int) -> FileIdentity:
    """Return the identity of an open file."""
    found = os.fstat(descriptor)
    return FileIdentity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def is_unchanged(path: str, known: FileIdentity) -> bool:
    """Tell if a file is still the verified one. A link in its place is not."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return FileIdentity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) == known


def file_of(url: str) -> str:
    """Return the file name in a URL; empty if it has none that is a valid name."""
    name = urlsplit(url).path.rpartition("/")[2]
    return name if _name(name) else ""


def listed_checksum(text: str, name: str, where: str) -> str:
    """Return a file's checksum from a list in the format of sha256sum. Raises ImageRefused."""
    for line in text.splitlines():
        digits, _, listed = line.strip().partition(" ")
        if listed.lstrip(" *").removeprefix("./") == name and _digits(digits):
            return f"sha256:{digits}"
    raise ImageRefused(f"the list of sums at {urlsplit(where).netloc} does not have {name}")


def checksum_of(descriptor: int, report: Report) -> str:
    """Return the checksum of an open file; reads all of it. Raises exceptions of `report`."""
    digest, place, size = hashlib.sha256(), 0, os.fstat(descriptor).st_size
    while piece := os.pread(descriptor, _CHUNK_SIZE, place):
        digest.update(piece)
        place += len(piece)
        report(place, size)
    return f"sha256:{digest.hexdigest()}"


def verify_checksum(descriptor: int, expected: str, report: Report) -> None:
    """Verify the checksum of an open file; reads all of it. Raises ImageMismatch, and exceptions of `report`."""
    found = checksum_of(descriptor, report)
    if found != expected:
        raise ImageMismatch(f"the file's sum is {found}, and the catalogue says {expected}")
