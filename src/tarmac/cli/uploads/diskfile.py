"""Examines a disk image before it is uploaded: format, packing and size, by the first bytes of the file.

Nodes guess nothing: they refuse a file that is not as its LocalMachineImage says. A mistake is found here, before the
upload, and not by the first machine.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tarmac.runtimes.interface import ImageMismatch
from tarmac.runtimes.qemu.images.qcow2 import check_qcow2

Format = Literal["raw", "qcow2"]
Compression = Literal["gzip", "xz", "zstd"]

FORMATS: Final = ("raw", "qcow2")
_PACKED: Final[dict[bytes, Compression]] = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_QCOW2: Final = b"QFI\xfb"
_OTHERS: Final = ((0, b"KDMV", "VMDK"), (0, b"# Disk Desc", "VMDK"), (0, b"vhdxfile", "VHDX"), (0, b"conectix", "VHD"))
_VDI: Final = (64, b"\x7f\x10\xda\xbe", "VDI")
_BOOT_SECTOR: Final = (510, b"\x55\xaa")
_HEAD: Final = 512
_CHUNK: Final = 1 << 20
_GIB: Final = 1 << 30
_MAX_GIB: Final = 100


class BadDiskFile(Exception):
    """The file cannot be used as a disk image; the message tells how to get one that can."""


@dataclass(frozen=True, slots=True)
class DiskFile:
    """An examined file. `size` is the disk's, as a quantity; `stored` the file's, in bytes."""

    path: Path
    format: Format
    compression: Compression | None
    size: str
    stored: int


def examine(path: Path, format: Format | None, size: int | None) -> DiskFile:
    """Examine a file. `format` and `size` are those the user stated, if any. Raises BadDiskFile, OSError."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise BadDiskFile(f"{path}: not a plain file; give the file of a disk")
    with path.open("rb") as file:
        start = file.read(_HEAD)
    compression: Compression | None = next((kind for magic, kind in _PACKED.items() if start.startswith(magic)), None)
    head = start if compression is None else _unpacked(path, compression)
    if head is None:
        if format is None or size is None:
            raise BadDiskFile(f"{path}: packed with {compression}, and not examined; give --format and --size")
        return DiskFile(path, format, compression, _quantity(path, size, size), found.st_size)
    is_format = _format(path, head)
    if format not in (None, is_format):
        raise BadDiskFile(f"{path}: its content is {is_format}, and --format says {format}; leave --format out")
    disk = _disk_size(path, head, is_format, found.st_size if compression is None else None, size)
    return DiskFile(path, is_format, compression, _quantity(path, disk, size), found.st_size)


def checksum(path: Path, progress: Callable[[int], None]) -> str:
    """Return the checksum of a file; `progress` is called with the bytes read so far. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
            done += len(piece)
            progress(done)
    return f"sha256:{digest.hexdigest()}"


def _unpacked(path: Path, compression: Compression) -> bytes | None:
    """Return the first bytes of a packed file; None where the standard library cannot unpack it."""
    if compression == "zstd":
        return None
    try:
        with gzip.open(path) if compression == "gzip" else lzma.open(path) as file:
            return file.read(_HEAD)
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise BadDiskFile(f"{path}: begins as {compression} and cannot be unpacked ({error}); pack it again") from error


def _format(path: Path, head: bytes) -> Format:
    if head.startswith(_QCOW2):
        return "qcow2"
    for place, magic, name in (*_OTHERS, _VDI):
        if head[place:].startswith(magic):
            raise BadDiskFile(f"{path}: a {name} disk; convert it: qemu-img convert -c -O qcow2 {path} disk.qcow2")
    place, magic = _BOOT_SECTOR
    if not head[place:].startswith(magic):
        raise BadDiskFile(f"{path}: neither qcow2 nor a raw disk with a boot sector; give the image of a whole disk")
    return "raw"


def _disk_size(path: Path, head: bytes, format: Format, raw: int | None, stated: int | None) -> int:
    """Return the bytes of the disk. `raw`: the size of the file, unless it is packed."""
    if format == "qcow2":
        try:
            return check_qcow2(head, _MAX_GIB * _GIB)
        except ImageMismatch as mismatch:
            raise BadDiskFile(f"{path}: {mismatch}") from mismatch
    if raw is None and stated is None:
        raise BadDiskFile(f"{path}: the size of a packed raw disk is unknown; give --size")
    return raw if raw is not None else stated or 0


def _quantity(path: Path, disk: int, stated: int | None) -> str:
    """Return the size in whole Gi: the stated one, or the smallest that holds the disk. Raises BadDiskFile."""
    gib = -(-(stated or disk) // _GIB)
    if gib * _GIB < disk:
        raise BadDiskFile(f"{path}: its disk has {disk} bytes, and --size is less; give at least {-(-disk // _GIB)}Gi")
    if gib > _MAX_GIB:
        raise BadDiskFile(f"{path}: its disk would have {gib}Gi; {_MAX_GIB}Gi is the most")
    return f"{gib}Gi"
