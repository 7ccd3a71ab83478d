"""Tracks images and their last use, and removes unused ones when their disk fills up.

An image is in use while any container, running or not, refers to it; the sandbox image always is. Above the high
threshold, images are removed in order of last use until the low threshold is reached; never those in use, pinned, or so
new that a pod may be about to start. With a maximum age, images unused for that long are removed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.stats.hostusage import FileSystem, file_system
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.runtimes.interface import Image, Runtime, RuntimeFault

INTERVAL: Final = 300.0
_LIST_INTERVAL: Final = 30.0
_log = log("collection")


@dataclass(slots=True)
class _Known:
    """First seen, and last in use (0: not since the agent started)."""

    first: float
    used: float = 0.0


class ImageCollector:
    """The images of a node."""

    def __init__(
        self,
        runtime: Runtime,
        kubelet: KubeletConfiguration,
        clock: Clock,
        recorder: Recorder,
        about: InvolvedObject,
        sandbox_image: Callable[[], str] = lambda: "",
    ) -> None:
        self.removed = 0
        self.mount_point = ""
        self._runtime = runtime
        self._kubelet = kubelet
        self._clock = clock
        self._recorder = recorder
        self._about = about
        self._sandbox_image = sandbox_image
        self._present: Sequence[Image] = ()
        self._known: dict[str, _Known] = {}

    def present(self) -> Sequence[Image]:
        """Return the images as last listed."""
        return self._present

    async def run(self) -> None:
        """List every 30 seconds and collect every five minutes, until cancelled."""
        # The first collection comes an interval after the start: pods may be about to use their images again.
        collected = self._clock.monotonic()
        while True:
            try:
                await self.refresh()
                if self._clock.monotonic() - collected >= INTERVAL:
                    collected = self._clock.monotonic()
                    await self.collect()
            except (RuntimeFault, OSError) as error:
                _log.warning("image collection failed, will retry", why=str(error))
            await self._clock.sleep(_LIST_INTERVAL)

    async def refresh(self) -> set[str]:
        """List images and mark those in use; return their ids. Raises RuntimeFault."""
        self._present = await self._runtime.images()
        self.mount_point = (await self._runtime.image_space())[0]
        now = self._clock.now()
        named = {name: image.id for image in self._present for name in (image.id, *image.tags, *image.digests)}
        # After the images: in the other order, an image whose container is created in between would look unused.
        used = {
            named[name]
            for container in await self._runtime.containers()
            for name in (container.image_id, container.image)
            if name in named
        }
        used |= {named[name] for name in (self._sandbox_image(),) if name in named}
        # Rebuilt from the list, so that an image that is removed and pulled again has its minimum age anew.
        self._known = {image.id: self._known.get(image.id) or _Known(now) for image in self._present}
        for image in used:
            self._known[image].used = now
        return used

    async def collect(self) -> None:
        """Free space if the images' disk is above the high threshold. Raises RuntimeFault, OSError."""
        await self._collect_old()
        space = file_system(self.mount_point)
        percent = 100 - space.available * 100 // space.capacity if space.capacity else 0
        if percent < self._kubelet.image_gc_high_threshold_percent:
            return
        missing = missing_bytes(space, self._kubelet.image_gc_low_threshold_percent)
        _log.info("image disk usage above the high threshold", percent=percent, missing=missing)
        freed = await self.free(missing)
        if freed < missing:
            self._recorder.event(
                self._about,
                "Warning",
                "FreeDiskSpaceFailed",
                f"Failed to garbage collect required amount of images. Attempted to free {missing} bytes, "
                f"but only found {freed} bytes eligible to free.",
            )

    async def free(self, missing: int, least_age: float | None = None) -> int:
        """Remove unused images until `missing` bytes are freed; return the freed bytes. Raises RuntimeFault."""
        age = self._kubelet.image_minimum_gc_age if least_age is None else least_age
        freed = 0
        for image in await self._unused(age):
            if freed >= missing:
                break
            freed += await self._remove(image)
        return freed

    async def _collect_old(self) -> None:
        age = self._kubelet.image_maximum_gc_age
        if age:
            for image in await self._unused(self._kubelet.image_minimum_gc_age):
                known = self._known[image.id]
                if self._clock.now() - (known.used or known.first) > age:
                    await self._remove(image)

    async def _unused(self, least_age: float) -> list[Image]:
        """Return removable images, the least recently used first."""
        # Refreshed before each choice: since the last list a pod may have started to use an image.
        used, now = await self.refresh(), self._clock.now()
        free = [
            image
            for image in self._present
            if image.id not in used and not image.pinned and now - self._known[image.id].first >= least_age
        ]
        return sorted(free, key=lambda image: (self._known[image.id].used, self._known[image.id].first, image.id))

    async def _remove(self, image: Image) -> int:
        try:
            # A container created since the list may lose its image here: its start fails, and its pod pulls the image
            # again.
            await self._runtime.remove_image(image.id, image.handler)
        except RuntimeFault as error:
            _log.warning("image cannot be removed", image=image.id, why=str(error))
            return 0
        _log.info("image removed", image=image.id, tags=list(image.tags), bytes=image.size)
        self.removed += 1
        return image.size


def missing_bytes(space: FileSystem, low: int) -> int:
    """Return the bytes to free so that at most `low` percent are used."""
    return space.capacity * (100 - low) // 100 - space.available
