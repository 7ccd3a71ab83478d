"""What is kept of images on a node: a record for each, beside the files.

    <sum>.part            being fetched; the next attempt goes on from there
    <sum>-<format>.raw    a disk, complete when it has this name, mode 0444
    <sum>.file            a kernel or an initial filesystem that was fetched
    <id>.json             an image: what the catalogue said of it, and its files

A file of the node's own folder that needs no conversion is used where it is: the record remembers which file it was
whose sum was checked. An image is identified by all that makes a difference to its machines, so when the catalogue
changes its word, of the format for instance, that is another image, though the file is the same.
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
from tarmac.runtimes.qemu.images.sources import Identity, is_unchanged

_MATTERS = ("checksum", "format", "compression", "size", "boot", "accepts", "firmware")
_PREFIX = "sha256:"
_encode = msgspec.json.Encoder(order="sorted").encode


class KeptFile(msgspec.Struct, frozen=True):
    """A file, as it was when it was found to be right. `own`: it was made here and goes with the image."""

    path: str
    identity: Identity
    own: bool

    def is_there(self) -> bool:
        """Whether it is still that file."""
        return is_unchanged(self.path, self.identity)


class ImageRecord(msgspec.Struct, frozen=True):
    """An image that is here."""

    name: str
    said: JsonObject
    disk: KeptFile
    kernel: KeptFile | None = None
    initrd: KeptFile | None = None

    @property
    def spec(self) -> MachineImageSpec:
        """What the catalogue said of it."""
        return decode(MachineImageSpec, self.said)

    def files(self) -> list[KeptFile]:
        """Everything that it needs."""
        return [each for each in (self.disk, self.kernel, self.initrd) if each is not None]


def identify(spec: MachineImageSpec) -> str:
    """The same for all that make the same machines."""
    said = encode(spec)
    return _PREFIX + hashlib.sha256(_encode({field: said.get(field) for field in _MATTERS})).hexdigest()


class Records:
    """The records of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._decode = msgspec.json.Decoder(ImageRecord).decode

    def get(self, id: str) -> ImageRecord | None:
        """An image all of whose files are there."""
        try:
            record = self._decode(self._path(id).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        return record if all(each.is_there() for each in record.files()) else None

    def all(self) -> Iterator[tuple[str, ImageRecord]]:
        """Every image that is whole, by its id."""
        for path in sorted(self._folder.glob("*.json")):
            identity = _PREFIX + path.stem
            record = self.get(identity)
            if record is not None:
                yield identity, record

    def put(self, id: str, record: ImageRecord) -> None:
        """Keep it; in one step, after its files."""
        fresh = self._path(id).with_suffix(".json~")
        fresh.write_bytes(msgspec.json.encode(record, enc_hook=str))
        fresh.replace(self._path(id))

    def remove(self, id: str) -> None:
        """Forget an image, then remove what no other image needs: a killed agent leaves files, never a lie."""
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


def stored_size(file: KeptFile) -> int:
    """The room that a file of ours takes; nothing for one that was there before."""
    return os.stat(file.path).st_blocks * 512 if file.own else 0
