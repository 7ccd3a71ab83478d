"""Builds a read-only disk from files: ISO 9660 with Rock Ridge, which provides Linux file names and modes.

    sector 16   volume descriptor           sector 18   path tables, one for each byte order
    sector 17   descriptor set terminator   then        directories, one after the other; then the files

The plain ISO 9660 names are just numbers: every relevant reader uses Rock Ridge. All files belong to root and all times
are the epoch, so the same files produce the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

SECTOR = 2048
_FIRST_TABLE = 18
_EPOCH = bytes((70, 1, 1, 0, 0, 0, 0))  # 1 January 1970
_NO_TIME = b"0" * 16 + b"\0"
_FOLDER_MODE, _FILE_MODE = 0o040555, 0o100000
_MAX_NAME = 160  # fits, with all other fields, in one record of 255 bytes


class IsoTooLarge(ValueError):
    """The files or a name exceed a limit; the message names it."""


@dataclass(frozen=True, slots=True)
class IsoFile:
    """A file and its permissions."""

    content: bytes
    mode: int = 0o400


@dataclass(slots=True)
class _Folder:
    name: str
    parent: _Folder | None
    folders: dict[str, _Folder] = field(default_factory=dict["str", "_Folder"])
    files: dict[str, IsoFile] = field(default_factory=dict[str, IsoFile])
    sector: int = 0
    size: int = 0  # in bytes, whole sectors
    number: int = 0  # in the path table, from 1

    def below(self) -> Iterator[_Folder]:
        """Yield this directory and all below it, level by level."""
        level = [self]
        while level:
            yield from level
            level = [inner for each in level for _, inner in sorted(each.folders.items())]


def iso_image(label: str, files: Mapping[str, IsoFile], largest: int) -> bytes:
    """Build the disk. Names have `/` between directories. Raises IsoTooLarge."""
    size = sum(len(each.content) for each in files.values())
    if size > largest:
        raise IsoTooLarge(f"its files have {size} bytes together, and at most {largest} fit")
    root = _tree(files)
    folders = list(root.below())
    for number, folder in enumerate(folders, start=1):
        folder.number = number
    table_sectors = _sectors(sum(len(_table_entry(each, ">")) for each in folders))
    place = _FIRST_TABLE + 2 * table_sectors
    for folder in folders:  # the length of a record does not depend on the sector numbers in it
        folder.sector, folder.size = place, _sectors(len(_records(folder, {}))) * SECTOR
        place += folder.size // SECTOR
    sectors: dict[int, int] = {}  # of files, by identity
    for folder in folders:
        for _, file in sorted(folder.files.items()):
            sectors[id(file)] = place
            place += _sectors(len(file.content))
    tables = [b"".join(_table_entry(each, order) for each in folders) for order in "<>"]
    parts = [bytes(16 * SECTOR), _description(label, root, place, len(tables[0]), table_sectors), _END]
    parts += [_padded(table, table_sectors) for table in tables]
    parts += [_padded(_records(each, sectors)) for each in folders]
    parts += [_padded(file.content) for each in folders for _, file in sorted(each.files.items())]
    return b"".join(parts)


def _tree(files: Mapping[str, IsoFile]) -> _Folder:
    root = _Folder("", None)
    for path, file in files.items():
        *above, name = path.split("/")
        folder = root
        for each in (*above, name):
            if len(each.encode()) > _MAX_NAME:
                raise IsoTooLarge(f"the name {each[:20]}… has more than {_MAX_NAME} bytes")
        for each in above:
            folder = folder.folders.setdefault(each, _Folder(each, folder))
        folder.files[name] = file
    return root


def _records(folder: _Folder, sectors: Mapping[int, int]) -> bytes:
    """Return the content of a directory. A record never crosses a sector boundary."""
    out = bytearray()
    is_root = folder.parent is None
    own = _record(b"\0", folder.sector, folder.size, _FOLDER_MODE, "", first=is_root)
    above = folder.parent or folder
    entries = [own, _record(b"\1", above.sector, above.size, _FOLDER_MODE, "")]
    for index, (name, inner) in enumerate(sorted(folder.folders.items())):
        entries.append(_record(b"D%07d" % index, inner.sector, inner.size, _FOLDER_MODE, name))
    for index, (name, file) in enumerate(sorted(folder.files.items())):
        place = sectors.get(id(file), 0)
        mode = _FILE_MODE | file.mode & 0o7777
        entries.append(_record(b"F%07d.;1" % index, place, len(file.content), mode, name))
    for each in entries:
        if len(out) % SECTOR + len(each) > SECTOR:
            out += bytes(-len(out) % SECTOR)
        out += each
    return bytes(out)


def _record(identifier: bytes, sector: int, size: int, mode: int, name: str, *, first: bool = False) -> bytes:
    """Return one directory entry with the Rock Ridge fields: the mode and, except for `.` and `..`, the name."""
    is_folder = mode & 0o170000 == _FOLDER_MODE & 0o170000
    more = b"SP\x07\x01\xbe\xef\0" if first else b""
    more += b"PX\x24\x01" + b"".join(map(_both32, (mode, 1, 0, 0)))
    if name:
        written = name.encode()
        more += b"NM" + bytes((5 + len(written), 1, 0)) + written
    if first:
        more += b"ER" + bytes((18, 1, 10, 0, 0, 1)) + b"RRIP_1991A"
    head = bytes((0,)) + _both32(sector) + _both32(size) + _EPOCH + bytes((2 if is_folder else 0, 0, 0)) + _both16(1)
    body = head + bytes((len(identifier),)) + identifier
    body += bytes((len(body) + 1) % 2)
    body += more
    body += bytes((len(body) + 1) % 2)
    return bytes((len(body) + 1,)) + body


def _table_entry(folder: _Folder, order: str) -> bytes:
    name = b"\0" if folder.parent is None else b"D%07d" % sorted(folder.parent.folders).index(folder.name)
    above = folder.parent.number if folder.parent is not None else 1
    return struct.pack(f"{order}BBIH", len(name), 0, folder.sector, above) + name + bytes(len(name) % 2)


def _description(label: str, root: _Folder, sectors: int, table: int, table_sectors: int) -> bytes:
    """Return the primary volume descriptor."""
    out = bytearray(b"\x01CD001\x01\0" + b" " * 32 + label.encode("ascii", "replace")[:32].ljust(32) + bytes(8))
    out += _both32(sectors) + bytes(32) + _both16(1) + _both16(1) + _both16(SECTOR) + _both32(table)
    out += struct.pack("<II", _FIRST_TABLE, 0) + struct.pack(">II", _FIRST_TABLE + table_sectors, 0)
    # The root's own record has a fixed length here, without room for Rock Ridge fields.
    entry = _both32(root.sector) + _both32(root.size) + _EPOCH + bytes((2, 0, 0)) + _both16(1) + b"\x01\0"
    out += bytes((34, 0)) + entry
    out += b" " * (128 * 4 + 37 * 3) + _NO_TIME * 4 + b"\x01"
    return bytes(out.ljust(SECTOR, b"\0"))


_END = (b"\xffCD001\x01").ljust(SECTOR, b"\0")


def _both32(value: int) -> bytes:
    return struct.pack("<I", value) + struct.pack(">I", value)


def _both16(value: int) -> bytes:
    return struct.pack("<H", value) + struct.pack(">H", value)


def _sectors(size: int) -> int:
    return -(-size // SECTOR)


def _padded(content: bytes, sectors: int | None = None) -> bytes:
    return content.ljust((_sectors(len(content)) if sectors is None else sectors) * SECTOR, b"\0")
