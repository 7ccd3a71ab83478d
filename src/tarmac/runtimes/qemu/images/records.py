"""Records of the images on a node, one each, beside their files.

    <sum>.part            being fetched; the next attempt resumes it
    <sum>-<format>.raw    a disk, complete under this name, mode 0444
    <sum>.file            a kernel or an initial filesystem that was fetched
    <id>.json             an image: its definition in the catalogue, and its files

A file of the node's own directory that needs no conversion is used in place: the record has the identity of the file
that was verified. The id of an image covers everything that affects its machines, so a change in the catalogue, of the
format for instance, makes a different image from the same file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tarmac.api.compute.machineimage import MachineImageSpec
from tarmac.api.declare import decode, encode
from tarmac.api.schema import JsonObject
from tarmac.runtimes.qemu.images.imagesources import FileIdentity, is_unchanged

_MATTERS = ("checksum", "format", "compression", "size", "boot", "accepts", "firmware")
_PREFIX = "sha256:"
_encode = msgspec.json.Encoder(order="sorted").encode


class StoredFile(msgspec.Struct, frozen=True):
    """A file and its identity at verification. `own`: it was created here and is deleted with the image."""

    path: str
    identity: FileIdentity
    own: bool

    def is_there(self) -> bool:
        """Tell if it is still the verified file."""
        return is_unchanged(self.path, self.identity)


class ImageRecord(msgspec.Struct, frozen=True):
    """An image present on this node."""

    name: str
    definition: JsonObject = msgspec.field(name="said")
    disk: StoredFile
    kernel: StoredFile | None = None
    initrd: StoredFile | None = None

    @property
    def spec(self) -> MachineImageSpec:
        """Its definition in the catalogue."""
        return decode(MachineImageSpec, self.definition)

    def files(self) -> list[StoredFile]:
        """Return all files that the image needs."""
        return [each for each in (self.disk, self.kernel, self.initrd) if each is not None]


def identify(spec: MachineImageSpec, owner: str = "") -> str:
    """Return the id: equal for definitions that make equal machines. `owner`: the namespace of a tenant's image."""
    fields = encode(spec)
    matters = {field: fields.get(field) for field in _MATTERS} | ({"owner": owner} if owner else {})
    if not spec.checksum:  # each node determines the checksum by itself: the source tells images apart
        matters["source"] = fields.get("source")
    return _PREFIX + hashlib.sha256(_encode(matters)).hexdigest()


class ImageRecords:
    """The records of a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._decode = msgspec.json.Decoder(ImageRecord).decode

    def get(self, id: str) -> ImageRecord | None:
        """Return an image if all its files are present and unchanged."""
        try:
            record = self._decode(self._path(id).read_bytes())
        except (OSError, UnicodeError, msgspec.MsgspecError):
            return None
        return record if all(each.is_there() for each in record.files()) else None

    def all(self) -> Iterator[tuple[str, ImageRecord]]:
        """Yield all complete images, by id."""
        for path in sorted(self._folder.glob("*.json")):
            identity = _PREFIX + path.stem
            record = self.get(identity)
            if record is not None:
                yield identity, record

    def put(self, id: str, record: ImageRecord) -> None:
        """Write a record atomically; its files must be complete."""
        fresh = self._path(id).with_suffix(".json~")
        fresh.write_bytes(msgspec.json.encode(record, enc_hook=str))
        fresh.replace(self._path(id))

    def remove(self, id: str) -> None:
        """Delete the record, then files that no other image needs: a crash in between leaves just stray files."""
        record = self.get(id)
        self._path(id).unlink(missing_ok=True)
        if record is None:
            return
        needed = {each.path for _, other in self.all() for each in other.files()}
        for each in record.files():
            if each.own and each.path not in needed:
                Path(each.path).unlink(missing_ok=True)

    def _path(self, id: str) -> Path:
        name = id.removeprefix(_PREFIX)
        if not name.isalnum():
            raise ValueError(f"{id!r} is not the id of an image")
        return self._folder / f"{name}.json"


def stored_size(file: StoredFile) -> int:
    """Return the disk space of a file created here; 0 for one used in place."""
    return os.stat(file.path).st_blocks * 512 if file.own else 0
