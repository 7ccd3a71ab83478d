"""Getting the files of an image: from the node's folder or by fetching, their sums checked, the disk made raw.

All of it blocks and is done in a thread. It may end anywhere, by kill -9 as well: what has its final name is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarmac.api.compute.machineimage import BootFile, ImageSource, MachineImageSpec
from tarmac.api.declare import encode
from tarmac.runtimes.interface.errors import ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images.convert import Wanted, check_raw, write_raw
from tarmac.runtimes.qemu.images.fetch import Told, fetch
from tarmac.runtimes.qemu.images.records import ImageRecord, KeptFile
from tarmac.runtimes.qemu.images.sources import check_sum, identity_of, local_file

_LARGEST_BOOT_FILE = 1 << 30
_EVERYBODY = 0o004


class ImageFiles:
    """Makes the files of images in `folder`; `local` is the node's own folder, which is only read."""

    def __init__(self, folder: Path, local: Path) -> None:
        self._folder = folder
        self._local = local

    def get(self, name: str, spec: MachineImageSpec, told: Told) -> ImageRecord:
        """Have all of them. Raises ImageRefused, OSError, and what `told` does."""
        if spec.source is None:
            raise ImageRefused(f"image {name} has no source: set spec.source and spec.checksum of its MachineImage")
        disk = self._disk(spec, spec.source, told)
        boot = spec.boot
        kernel = self._boot_file(boot.kernel, told) if boot is not None else None
        initrd = self._boot_file(boot.initrd, told) if boot is not None and boot.initrd is not None else None
        return ImageRecord(name, encode(spec), disk, kernel, initrd)

    def _disk(self, spec: MachineImageSpec, source: ImageSource, told: Told) -> KeptFile:
        size = spec.size.value()
        kept = self._folder / f"{_hex(spec.checksum)}-{spec.format}{spec.compression or ''}.raw"
        if kept.exists():
            check_raw(kept.stat().st_size, size)
            return _kept(kept)
        wanted = Wanted(spec.format, spec.compression, size)
        if source.file and wanted.format == "raw" and wanted.compression is None:
            with local_file(self._local, source.file) as file:
                check_raw(os.fstat(file).st_size, size)
                return _used_in_place(self._local / source.file, file, spec.checksum, told)
        with self._checked(source.file, source.url, spec.checksum, told) as file:
            fresh = kept.with_suffix(".new")
            write_raw(file, wanted, fresh)
        fresh.rename(kept)
        _sync(self._folder)
        self._part(spec.checksum).unlink(missing_ok=True)
        return _kept(kept)

    def _boot_file(self, source: BootFile, told: Told) -> KeptFile:
        if source.file:
            with local_file(self._local, source.file) as file:
                return _used_in_place(self._local / source.file, file, source.checksum, told)
        kept = self._folder / f"{_hex(source.checksum)}.file"
        if not kept.exists():
            with self._checked("", source.url, source.checksum, told) as file:
                if os.fstat(file).st_size > _LARGEST_BOOT_FILE:
                    raise ImageMismatch(f"a kernel or initial filesystem has at most {_LARGEST_BOOT_FILE} bytes")
                os.fchmod(file, 0o444)
                os.fsync(file)
                self._part(source.checksum).rename(kept)
            _sync(self._folder)
        return _kept(kept)

    @contextmanager
    def _checked(self, name: str, url: str, checksum: str, told: Told) -> Generator[int]:
        """The file as it was fetched, its sum checked, readable by whoever is in the cage."""
        part = self._part(checksum)
        if url:
            fetch(url, part, told)
        with local_file(self._local, name) if name else local_file(self._folder, part.name) as file:
            try:
                check_sum(file, checksum, told)
            except ImageMismatch:
                if url:
                    part.unlink(missing_ok=True)  # going on from a wrong file would never end
                raise
            if name and not os.fstat(file).st_mode & _EVERYBODY:
                # An administrator's file keeps its rights: a copy, which nobody else can reach, gets others.
                shutil.copyfile(self._local / name, part, follow_symlinks=False)
                with local_file(self._folder, part.name) as copy:
                    check_sum(copy, checksum, told)
                    yield copy
            else:
                yield file

    def _part(self, checksum: str) -> Path:
        return self._folder / f"{_hex(checksum)}.part"


def _hex(checksum: str) -> str:
    """The digits of a sum, which become a name. Raises ImageMismatch for anything else."""
    kind, _, digits = checksum.partition(":")
    if kind != "sha256" or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise ImageMismatch(f"{checksum!r} is not sha256: and 64 hex digits")
    return digits


def _used_in_place(path: Path, file: int, checksum: str, told: Told) -> KeptFile:
    identity = identity_of(file)  # before it is read: what changes meanwhile is looked at again
    check_sum(file, checksum, told)
    return KeptFile(str(path), identity, own=False)


def _kept(path: Path) -> KeptFile:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return KeptFile(str(path), identity_of(descriptor), own=True)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
