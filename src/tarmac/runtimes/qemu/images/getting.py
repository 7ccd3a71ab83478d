"""Provides the files of an image: takes them from the node's directory or fetches them, verifies and converts them.

All functions block and run in a thread. They may be interrupted at any point, by SIGKILL too: a file under its final
name is complete.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from tarmac.api.compute.machineimage import (
    BootFile,
    ImageSource,
    MachineImageSpec,
    image_owner,
    registry_repository,
)
from tarmac.api.declare import encode
from tarmac.base.clock import Clock
from tarmac.runtimes.interface.errors import ImageMismatch, ImageRefused
from tarmac.runtimes.interface.images import Credentials
from tarmac.runtimes.qemu.images.convert import ExpectedFile, check_raw, write_raw
from tarmac.runtimes.qemu.images.fetch import HostUnreachable, Report, TenantLimits, fetch, fetch_uploaded, room
from tarmac.runtimes.qemu.images.guard import TenantNetworks
from tarmac.runtimes.qemu.images.imagesources import (
    checksum_of,
    file_of,
    identity_of,
    listed_checksum,
    local_file,
    verify_checksum,
)
from tarmac.runtimes.qemu.images.records import ImageRecord, StoredFile
from tarmac.runtimes.qemu.images.registry import find_uploaded

_MAX_BOOT_FILE = 1 << 30
_EVERYBODY = 0o004
_TABLES = 16 << 20
_MAX_CHECKSUM_LIST = 1 << 20


class ImageFiles:
    """Creates the files of images in `folder`; `local` is the node's own directory, which is only read."""

    def __init__(
        self, folder: Path, local: Path, networks: TenantNetworks, clock: Clock, registries: Path | None = None
    ) -> None:
        """`networks`: the networks that files of tenants may be fetched from. `registries`: as containerd has them."""
        self._folder = folder
        self._local = local
        self._networks = networks
        self._registries = registries
        self._clock = clock

    def get(
        self, name: str, spec: MachineImageSpec, report: Report, credentials: Credentials | None = None
    ) -> ImageRecord:
        """Provide all files of an image. Raises ImageRefused, OSError, and exceptions of `report`.

        `credentials`: of the pod, for a file that its namespace has uploaded.
        """
        if spec.source is None:
            raise ImageRefused(f"image {name} has no source: set spec.source and spec.checksum of its MachineImage")
        owner, boot = image_owner(name), spec.boot
        if owner and (spec.source.file or boot is not None):
            raise ImageMismatch("a LocalMachineImage has a disk at an address, and no other files")
        source, checksum = (spec.source, spec.checksum) if owner else self._settled(spec, spec.source, report)
        spec = replace(spec, checksum=checksum)
        disk = self._disk(spec, source, report, owner, credentials)
        kernel = self._boot_file(boot.kernel, report) if boot is not None else None
        initrd = self._boot_file(boot.initrd, report) if boot is not None and boot.initrd is not None else None
        return ImageRecord(name, encode(spec), disk, kernel, initrd)

    def _settled(self, spec: MachineImageSpec, source: ImageSource, report: Report) -> tuple[ImageSource, str]:
        """Return the source and its checksum. A file with the URL's name in the node's directory replaces the download.

        The list of checksums is fetched once: the record of a present image outlives later changes by its publisher.
        """
        name = file_of(source.url)
        if name and (self._local / name).exists():
            with local_file(self._local, name) as file:
                return ImageSource(file=name), spec.checksum or checksum_of(file, report)
        if spec.checksum or not source.checksums:
            return source, spec.checksum
        listed = self._folder / f"{hashlib.sha256(source.checksums.encode()).hexdigest()}.sums"
        listed.unlink(missing_ok=True)  # an interrupted download of the list would be resumed with a newer version
        try:
            self._fetch(source.checksums, listed, report, name, max_bytes=_MAX_CHECKSUM_LIST)
            return source, listed_checksum(listed.read_text(errors="replace"), name, source.checksums)
        finally:
            listed.unlink(missing_ok=True)

    def _fetch(self, url: str, target: Path, report: Report, name: str, max_bytes: int | None = None) -> None:
        """Fetch a file of the catalogue. If its host is unreachable, the error tells how to provide it by hand."""
        try:
            fetch(url, target, report, max_bytes=max_bytes)
        except HostUnreachable as error:
            bring = f"; on a node without a way there, bring the file: install -m 0644 {name} {self._local}/"
            raise HostUnreachable(f"{error}{bring if name else ''}") from error

    def _disk(
        self, spec: MachineImageSpec, source: ImageSource, report: Report, owner: str, credentials: Credentials | None
    ) -> StoredFile:
        size = spec.size.value()
        kept = self._folder / f"{_stem(spec.checksum, owner)}-{spec.format}{spec.compression or ''}.raw"
        if kept.exists():
            check_raw(kept.stat().st_size, size)
            return _kept(kept)
        if owner and room(self._folder, tenant=True) < size:
            raise ImageRefused("this node has no room for the image; it tries again")
        wanted = ExpectedFile(spec.format, spec.compression, size)
        if source.file and wanted.format == "raw" and wanted.compression is None:
            with local_file(self._local, source.file) as file:
                check_raw(os.fstat(file).st_size, size)
                return _used_in_place(self._local / source.file, file, spec.checksum, report)
        if owner:
            self._fetch_of_tenant(source.url, spec.checksum, report, owner, size, credentials)
        with self._checked(source.file, source.url, spec.checksum, report, owner) as file:
            fresh = kept.with_suffix(".new")
            write_raw(file, wanted, fresh)
        fresh.rename(kept)
        _sync(self._folder)  # the new name must be durable before the download is deleted
        self._part(spec.checksum, owner).unlink(missing_ok=True)
        return _kept(kept)

    def _boot_file(self, source: BootFile, report: Report) -> StoredFile:
        if source.file:
            with local_file(self._local, source.file) as file:
                return _used_in_place(self._local / source.file, file, source.checksum, report)
        kept = self._folder / f"{_hex(source.checksum)}.file"
        if not kept.exists():
            with self._checked("", source.url, source.checksum, report) as file:
                if os.fstat(file).st_size > _MAX_BOOT_FILE:
                    raise ImageMismatch(f"a kernel or initial filesystem has at most {_MAX_BOOT_FILE} bytes")
                os.fchmod(file, 0o444)
                os.fsync(file)
                self._part(source.checksum).rename(kept)
            _sync(self._folder)
        return _kept(kept)

    def _fetch_of_tenant(
        self, url: str, checksum: str, report: Report, owner: str, size: int, credentials: Credentials | None
    ) -> None:
        """Fetch a file from a URL that a tenant has written, or from the registry. Raises ImageRefused."""
        part, limits = self._part(checksum, owner), self._limits(size)
        repository = registry_repository(url)
        if repository is None:
            fetch(url, part, report, limits)
        elif repository.namespace != owner:
            raise ImageMismatch(f"{repository} does not belong to the namespace of the image")
        else:
            fetch_uploaded(find_uploaded(self._registries, repository, checksum, credentials), part, report, limits)

    @contextmanager
    def _checked(self, name: str, url: str, checksum: str, report: Report, owner: str = "") -> Generator[int]:
        """Yield the fetched file, verified and readable by jailed programs."""
        part = self._part(checksum, owner)
        if url and not owner:
            self._fetch(url, part, report, file_of(url))
        with local_file(self._local, name) if name else local_file(self._folder, part.name) as file:
            try:
                verify_checksum(file, checksum, report)
            except ImageMismatch:
                if url:
                    part.unlink(missing_ok=True)  # resuming a wrong file would never succeed
                raise
            if name and not os.fstat(file).st_mode & _EVERYBODY:
                # An administrator's file keeps its mode: a copy in the agent's private directory gets a wider one.
                shutil.copyfile(self._local / name, part, follow_symlinks=False)
                with local_file(self._folder, part.name) as copy:
                    verify_checksum(copy, checksum, report)
                    yield copy
            else:
                yield file

    def _limits(self, size: int) -> TenantLimits:
        """Return a tenant's limits. A file is hardly larger than its disk: a qcow2 has tables beside its data."""
        return TenantLimits(self._networks, size + size // 64 + _TABLES, self._clock.monotonic)

    def _part(self, checksum: str, owner: str = "") -> Path:
        return self._folder / f"{_stem(checksum, owner)}.part"


def _stem(checksum: str, owner: str) -> str:
    """Return the base name of an image's files. Namespaces share none: knowing a checksum must not grant access."""
    return f"{hashlib.sha256(owner.encode()).hexdigest()[:16]}-{_hex(checksum)}" if owner else _hex(checksum)


def _hex(checksum: str) -> str:
    """Return the hex digits of a checksum, safe as a file name. Raises ImageMismatch for anything else."""
    kind, _, digits = checksum.partition(":")
    if kind != "sha256" or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise ImageMismatch(f"{checksum!r} is not sha256: and 64 hex digits")
    return digits


def _used_in_place(path: Path, file: int, checksum: str, report: Report) -> StoredFile:
    identity = identity_of(file)  # before reading, so that a change during the read is detected later
    verify_checksum(file, checksum, report)
    return StoredFile(str(path), identity, own=False)


def _kept(path: Path) -> StoredFile:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return StoredFile(str(path), identity_of(descriptor), own=True)
    finally:
        os.close(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
