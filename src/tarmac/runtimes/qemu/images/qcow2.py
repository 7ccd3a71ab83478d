"""Checks the header of a qcow2 file before a tool reads the file.

A qcow2 file can name other files: a backing file, an external data file. A tool that converts it would read those from
the host and expose them to the guest. So a file that names any is rejected, by its header alone; and so is one with
unknown features, since a later QEMU may support them.
"""

from __future__ import annotations

import struct
from typing import Final

from tarmac.runtimes.interface.errors import ImageMismatch

HEADER_BYTES: Final = 104
"""Number of bytes of a file that are checked."""

_MAGIC = b"QFI\xfb"
_VERSIONS = (2, 3)
_CLUSTER_BITS = range(9, 22)
# Magic, version, offset and length of the backing file's name, cluster bits, size of the disk, encryption.
_BOTH: Final = struct.Struct(">4sIQIIQI")
_INCOMPATIBLE: Final = struct.Struct(">Q")
_INCOMPATIBLE_AT = 72

_CORRUPT, _EXTERNAL_DATA = 1 << 1, 1 << 2
_HARMLESS = (1 << 0) | (1 << 3) | (1 << 4)  # not closed cleanly; other compression; extended L2 entries


def check_qcow2(header: bytes, most: int) -> int:
    """Check a file's first bytes and return the size of its disk, at most `most`. Raises ImageMismatch."""
    if len(header) < _BOTH.size or header[:4] != _MAGIC:
        raise ImageMismatch("the file is not a qcow2 image")
    _, version, backing_offset, backing_length, cluster_bits, size, encryption = _BOTH.unpack_from(header)
    if version not in _VERSIONS:
        raise ImageMismatch(f"the qcow2 image has version {version}; 2 and 3 are known")
    if backing_offset or backing_length:
        raise ImageMismatch("the qcow2 image has a backing file; give one that stands alone")
    if encryption:
        raise ImageMismatch("the qcow2 image is encrypted")
    if cluster_bits not in _CLUSTER_BITS:
        raise ImageMismatch(f"the qcow2 image has clusters of 2^{cluster_bits} bytes; 2^9 to 2^21 are known")
    if size > most:
        raise ImageMismatch(f"the disk in the qcow2 image has {size} bytes, and spec.size is {most}")
    if version > _VERSIONS[0]:
        _check_features(header)
    return size


def _check_features(header: bytes) -> None:
    if len(header) < HEADER_BYTES:
        raise ImageMismatch("the qcow2 image ends in its header")
    (features,) = _INCOMPATIBLE.unpack_from(header, _INCOMPATIBLE_AT)
    if features & _EXTERNAL_DATA:
        raise ImageMismatch("the qcow2 image has its data in another file; give one that stands alone")
    if features & _CORRUPT:
        raise ImageMismatch("the qcow2 image says that it is corrupt")
    if features & ~_HARMLESS:
        raise ImageMismatch(f"the qcow2 image has features that are not known: {features & ~_HARMLESS:#x}")
