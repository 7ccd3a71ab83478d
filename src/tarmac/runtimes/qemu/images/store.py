"""The images of machines on a node: what their names mean, getting them once, and letting go of them.

A node does not read the catalogue. Pods say what their images are (`learn`), and the last word about a name counts. One
image is got by one thread at a time, of two in all, so a slow server keeps nothing else of the node waiting. An image
from which a disk is being filled is pinned.
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

from tarmac.api.compute.machineimage import MachineImageSpec
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.base.tasks import finished
from tarmac.runtimes.interface.errors import ImageRefused, RuntimeRefused
from tarmac.runtimes.interface.images import Credentials, Image, Progress
from tarmac.runtimes.qemu.images.getting import ImageFiles
from tarmac.runtimes.qemu.images.records import ImageRecord, Records, identify, stored_size
from tarmac.runtimes.qemu.needs import BootFiles

_AT_ONCE = 2
_MOST_NAMES = 1000  # that are remembered; pods bring them again
_UNFINISHED = (".new", ".unpacked", ".json~")

_specs = msgspec.json.Decoder(dict[str, JsonObject]).decode


class _Stopped(Exception):
    """Nobody waits for the image any more."""


class NodeMachineImages:
    """Implements `MachineImages`."""

    def __init__(self, folder: Path, local: Path) -> None:
        """`folder` is this agent's alone, `local` has files that an administrator put there."""
        self._folder = folder
        self._files = ImageFiles(folder, local)
        self._records = Records(folder)
        self._known: dict[str, MachineImageSpec] = {}
        self._locks: dict[str, asyncio.Lock] = {}  # by sum, which is what files that are being made are called by
        self._pins: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "machine-images")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)  # what is fetched is readable for the converter, by descriptor; nobody else gets here
        for path in folder.iterdir():
            if path.suffix in _UNFINISHED:
                path.unlink(missing_ok=True)
            elif path.suffix == ".cage":
                with suppress(OSError):
                    path.rmdir()

    def learn(self, annotation: str) -> None:
        """What names of images mean, as a pod says it. Raises RuntimeRefused when that cannot be read."""
        for name, spec in _read(annotation).items():
            self._known.pop(name, None)
            if len(self._known) >= _MOST_NAMES:
                del self._known[next(iter(self._known))]
            self._known[name] = spec

    def boot_files(self, image_id: str) -> BootFiles | None:
        """The kernel of an image that is here; None when it boots from its disk."""
        record = self._records.get(image_id)
        if record is None or record.kernel is None:
            return None
        boot, initrd = record.spec.boot, record.initrd
        line = boot.command_line if boot is not None else ""
        return BootFiles(Path(record.kernel.path), Path(initrd.path) if initrd is not None else None, line)

    def starts_by_uefi(self, image_id: str) -> bool:
        """Whether it needs UEFI firmware."""
        record = self._records.get(image_id)
        return record is not None and record.spec.firmware == "uefi"

    def accepts_cloud_init(self, image_id: str) -> bool:
        """Whether it reads a seed."""
        record = self._records.get(image_id)
        return record is None or record.spec.accepts == "cloud-init"

    # ---- as `Images`

    async def pull(
        self, image: str, credentials: Credentials | None, progress: Progress | None = None, handler: str = ""
    ) -> str:
        """The id of the image, once it is here. Raises ImageRefused."""
        return await self._have(image, self._spec(image), progress)

    async def image(self, name: str, handler: str = "") -> Image | None:
        """By name, as it was last said to be, or by id."""
        spec = self._known.get(name)
        identity = identify(spec) if spec is not None else name
        try:
            record = self._records.get(identity)
        except ValueError:
            return None  # a name that nobody has said anything about
        return self._image(identity, record) if record is not None else None

    async def images(self) -> Sequence[Image]:
        """All that are here."""
        return [self._image(identity, record) for identity, record in self._records.all()]

    async def remove_image(self, name: str, handler: str = "") -> None:
        """Its files go, as far as no other image needs them. Raises RuntimeRefused while a disk is filled from it."""
        found = await self.image(name, handler)
        if found is None:
            return
        if self._pins[found.id]:
            raise RuntimeRefused(f"a disk is being made from image {name}")
        self._records.remove(found.id)

    async def image_space(self) -> tuple[str, int, int]:
        """Where images are, the bytes and the inodes they take."""
        found = [each.stat() for each in self._folder.iterdir()]
        return _mount_point(self._folder), sum(each.st_blocks * 512 for each in found), len(found)

    # ---- for disks

    @asynccontextmanager
    async def disk(self, image: str, annotation: str) -> AsyncGenerator[Path]:
        """The raw disk of an image of a pod, as the pod says it is, pinned; got if need be. Raises ImageRefused."""
        spec = _read(annotation).get(image)
        if spec is None:
            raise ImageRefused(f"the pod does not say what image {image} is")
        identity = identify(spec)
        with self._pinned(identity):
            await self._have(image, spec, None)
            record = self._records.get(identity)
            if record is None:
                raise ImageRefused(f"image {image} vanished as soon as it was here")
            yield Path(record.disk.path)

    async def close(self) -> None:
        """No more images are got."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _have(self, name: str, spec: MachineImageSpec, progress: Progress | None) -> str:
        identity = identify(spec)
        if self._records.get(identity) is None:
            async with self._locks.setdefault(spec.checksum, asyncio.Lock()):
                if self._records.get(identity) is None:
                    with self._pinned(identity):
                        self._records.put(identity, await self._in_thread(name, spec, progress))
        return identity

    async def _in_thread(self, name: str, spec: MachineImageSpec, progress: Progress | None) -> ImageRecord:
        """Given up as soon as nobody waits. A thread cannot be ended, so it looks for that with every piece."""
        stop, loop = threading.Event(), asyncio.get_running_loop()

        def told(here: int, needed: int) -> None:
            if stop.is_set():
                raise _Stopped
            if progress is not None:
                loop.call_soon_threadsafe(progress, here, needed)

        work = loop.run_in_executor(self._threads, partial(self._files.get, name, spec, told))
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
