"""Headers of qcow2 files: self-contained disks are accepted, references to other files are rejected."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarmac.runtimes.interface.errors import ImageMismatch
from tarmac.runtimes.qemu.images.qcow2 import HEADER_BYTES, check_qcow2

GIB = 1 << 30


def header(
    *,
    version: int = 3,
    backing: int = 0,
    length: int = 0,
    bits: int = 16,
    size: int = GIB,
    crypt: int = 0,
    flags: int = 0,
) -> bytes:
    first = struct.pack(">4sIQIIQI", b"QFI\xfb", version, backing, length, bits, size, crypt)
    middle = struct.pack(">IQQIIQ", 1, 0x30000, 0x10000, 1, 0, 0)
    return first + middle + struct.pack(">QQQII", flags, 0, 0, 4, HEADER_BYTES)


ALONE = {
    "version 3": header(),
    "version 2": header(version=2)[:72],
    "as large as it may be": header(size=10 * GIB),
    "closed without care": header(flags=1),
    "another compression": header(flags=1 << 3),
    "finer clusters": header(flags=1 << 4),
}
REFUSED = [
    (b"", "not a qcow2 image"),
    (b"QFI\xfb", "not a qcow2 image"),
    (b"# Disk DescriptorFile\nversion=1\n" + b" " * 100, "not a qcow2 image"),
    (header(version=1), "version 1"),
    (header(version=4), "version 4"),
    (header(backing=0x200, length=11), "backing file"),
    (header(version=2, backing=0x200, length=11), "backing file"),
    (header(backing=0x200), "backing file"),
    (header(length=11), "backing file"),
    (header(crypt=1), "encrypted"),
    (header(crypt=2), "encrypted"),
    (header(bits=8), "clusters"),
    (header(bits=63), "clusters"),
    (header(size=10 * GIB + 1), "spec.size"),
    (header(size=(1 << 64) - 1), "spec.size"),
    (header(flags=1 << 1), "corrupt"),
    (header(flags=1 << 2), "another file"),
    (header(flags=1 << 5), "not known: 0x20"),
    (header(flags=1 << 63), "not known"),
    (header()[:100], "ends in its header"),
]


@pytest.mark.parametrize("first", ALONE.values(), ids=ALONE.keys())
def test_a_self_contained_disk_is_accepted(first: bytes) -> None:
    check_qcow2(first, 10 * GIB)


@pytest.mark.parametrize(("first", "finding"), REFUSED)
def test_anything_else_is_refused_with_what_was_found(first: bytes, finding: str) -> None:
    with pytest.raises(ImageMismatch, match=finding):
        check_qcow2(first, 10 * GIB)


@settings(deadline=None)
@given(st.binary(max_size=HEADER_BYTES).map(lambda rest: header()[:4] + rest))
def test_no_bytes_are_taken_that_name_another_file(first: bytes) -> None:
    try:
        check_qcow2(first, 10 * GIB)
    except ImageMismatch:
        return
    assert first[8:20] == bytes(12)
    assert struct.unpack_from(">I", first, 4)[0] == 2 or not first[79] & 0b100
