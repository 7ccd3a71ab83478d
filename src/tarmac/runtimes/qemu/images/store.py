"""The machine images of a node: resolves names, provides each image once, and removes images.

A node does not read the catalogue. Pods carry the definitions of their images (`learn`), and the latest definition of a
name counts. One thread at a time provides an image, of two threads in all, so a slow server delays no other work of the
node. An image is pinned while a disk is filled from it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from tarmac.api.compute.machineimage import MachineImageSpec, image_owner
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, SystemClock
from tarmac.base.tasks import finished
from tarmac.runtimes.interface.errors import ImageRefused, RuntimeRefused
from tarmac.runtimes.interface.images import Credentials, Image, Progress
from tarmac.runtimes.qemu.dependencies import BootFiles
from tarmac.runtimes.qemu.images.getting import ImageFiles
from tarmac.runtimes.qemu.images.guard import TenantNetworks
from tarmac.runtimes.qemu.images.records import ImageRecord, ImageRecords, identify, stored_size

_AT_ONCE = 2
_MAX_DEFINITIONS = 1000  # maximum of definitions remembered; pods bring them again
_UNFINISHED = (".new", ".unpacked", ".json~", ".sums")

_specs = msgspec.json.Decoder(dict[str, JsonObject]).decode


class _Stopped(Exception):
    """The caller was cancelled: the image is not needed any more."""


class NodeMachineImages:
    """Implements `MachineImages`."""

    def __init__(
        self,
        folder: Path,
        local: Path,
        networks: TenantNetworks | None = None,
        clock: Clock | None = None,
        registries: Path | None = None,
    ) -> None:
        """`folder` belongs to this agent alone; `local` has files that an administrator put there.

        `networks`: the networks that images of tenants may be fetched from; by default public addresses.
        `registries`: a directory per registry, as containerd has it; uploaded images come from the platform's own.
        """
        self._folder = folder
        self._files = ImageFiles(folder, local, networks or TenantNetworks(), clock or SystemClock(), registries)
        self._records = ImageRecords(folder)
        self._known: dict[str, MachineImageSpec] = {}
        self._locks: dict[str, asyncio.Lock] = {}  # by checksum, since unfinished files are named by it
        self._pins: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "machine-images")
        # A server chosen by a tenant may be slow on purpose: it must not delay images of the catalogue.
        self._tenant_threads = ThreadPoolExecutor(_AT_ONCE, "tenant-images")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)  # fetched files are readable by the converter, through descriptors; no other user enters
        for path in folder.iterdir():
            if path.suffix in _UNFINISHED:
                path.unlink(missing_ok=True)
            elif path.suffix == ".cage":
                with suppress(OSError):
                    path.rmdir()

    def learn(self, annotation: str) -> None:
        """Remember the image definitions in a pod's annotation. Raises RuntimeRefused if it cannot be parsed."""
        for name, spec in _read(annotation).items():
            self._known.pop(name, None)
            if len(self._known) >= _MAX_DEFINITIONS:
                del self._known[next(iter(self._known))]
            self._known[name] = spec

    def boot_files(self, image_id: str) -> BootFiles | None:
        """Return the kernel of a present image; None when the image boots from its disk."""
        record = self._records.get(image_id)
        if record is None or record.kernel is None:
            return None
        boot, initrd = record.spec.boot, record.initrd
        line = boot.command_line if boot is not None else ""
        return BootFiles(Path(record.kernel.path), Path(initrd.path) if initrd is not None else None, line)

    def starts_by_uefi(self, image_id: str) -> bool:
        """Tell if the image needs UEFI firmware."""
        record = self._records.get(image_id)
        return record is not None and record.spec.firmware == "uefi"

    def accepts_cloud_init(self, image_id: str) -> bool:
        """Tell if the image reads a cloud-init seed."""
        record = self._records.get(image_id)
        return record is None or record.spec.accepts == "cloud-init"

    # ---- as `Images`

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """Provide the image and return its id. Raises ImageRefused."""
        return await self._have(image, self._spec(image), progress, credentials)

    async def image(self, name: str, handler: str = "") -> Image | None:
        """Return a present image, by name (its latest definition) or by id."""
        spec = self._known.get(name)
        identity = identify(spec, image_owner(name)) if spec is not None else name
        try:
            record = self._records.get(identity)
        except ValueError:
            return None  # a name without a definition
        return self._image(identity, record) if record is not None else None

    async def images(self) -> Sequence[Image]:
        """Return all present images."""
        return [self._image(identity, record) for identity, record in self._records.all()]

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Delete an image and files that no other image needs. Raises RuntimeRefused while a disk is filled from it."""
        found = await self.image(name, handler)
        if found is None:
            return
        if self._pins[found.id]:
            raise RuntimeRefused(f"a disk is being made from image {name}")
        try:
            self._records.remove(found.id)
        except OSError as error:
            raise RuntimeRefused(f"image {name} cannot be removed: {error}") from error

    async def image_space(self) -> tuple[str, int, int]:
        """Return the mount point of the images, and the bytes and inodes they use."""
        found: list[os.stat_result] = []
        for each in self._folder.iterdir():
            with suppress(FileNotFoundError):  # renamed or removed since it was listed
                found.append(each.stat())
        return _mount_point(self._folder), sum(each.st_blocks * 512 for each in found), len(found)

    # ---- for disks

    @asynccontextmanager
    async def disk(self, image: str, annotation: str, credentials: Credentials | None = None) -> AsyncGenerator[Path]:
        """Yield the raw disk of a pod's image, by the pod's definition, provided and pinned. Raises ImageRefused."""
        spec = _read(annotation).get(image)
        if spec is None:
            raise ImageRefused(f"the pod does not say what image {image} is")
        identity = identify(spec, image_owner(image))
        with self._pinned(identity):
            await self._have(image, spec, None, credentials)
            record = self._records.get(identity)
            if record is None:
                raise ImageRefused(f"image {image} vanished as soon as it was here")
            yield Path(record.disk.path)

    async def close(self) -> None:
        """Reject further work; running threads are not awaited."""
        for threads in (self._threads, self._tenant_threads):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _have(
        self, name: str, spec: MachineImageSpec, progress: Progress | None, credentials: Credentials | None
    ) -> str:
        identity = identify(spec, image_owner(name))
        if self._records.get(identity) is None:
            async with self._locks.setdefault(f"{image_owner(name)}:{spec.checksum or name}", asyncio.Lock()):
                if self._records.get(identity) is None:
                    with self._pinned(identity):
                        self._put(name, identity, await self._in_thread(name, spec, progress, credentials))
        return identity

    def _put(self, name: str, identity: str, record: ImageRecord) -> None:
        try:
            self._records.put(identity, record)
        except OSError as error:
            raise ImageRefused(f"image {name}: {error}") from error

    async def _in_thread(
        self, name: str, spec: MachineImageSpec, progress: Progress | None, credentials: Credentials | None
    ) -> ImageRecord:
        """Provide the files in a thread. On cancellation, stop it at its next piece (it cannot be killed) and wait."""
        stop, loop = threading.Event(), asyncio.get_running_loop()

        def report(here: int, needed: int) -> None:
            if stop.is_set():
                raise _Stopped
            if progress is not None:
                loop.call_soon_threadsafe(progress, here, needed)

        threads = self._tenant_threads if image_owner(name) else self._threads
        work = loop.run_in_executor(threads, partial(self._files.get, name, spec, report, credentials))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            stop.set()
            with suppress(_Stopped, ImageRefused, OSError):
                await finished(work)
            raise
        except OSError as error:
            raise ImageRefused(f"image {name}: {error}") from error

    def _spec(self, image: str) -> MachineImageSpec:
        if image not in self._known:
            raise ImageRefused(f"nobody has said what image {image} is")
        return self._known[image]

    def _image(self, id: str, record: ImageRecord) -> Image:
        size = sum(map(stored_size, record.files()))
        digest = f"{record.name}@{record.spec.checksum}"
        return Image(id, (record.name,), (digest,), size, pinned=bool(self._pins[id]) or not size)

    @contextmanager
    def _pinned(self, id: str) -> Generator[None]:
        self._pins[id] += 1
        try:
            yield
        finally:
            self._pins[id] -= 1
            if not self._pins[id]:
                del self._pins[id]


def _read(annotation: str) -> dict[str, MachineImageSpec]:
    try:
        return {name: decode(MachineImageSpec, spec) for name, spec in _specs(annotation).items()}
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise RuntimeRefused(f"what the pod says of its images cannot be read: {error}") from error


def _mount_point(folder: Path) -> str:
    found = folder.resolve()
    while not os.path.ismount(found):
        found = found.parent
    return str(found)
