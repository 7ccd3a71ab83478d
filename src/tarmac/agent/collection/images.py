"""Which images are here, when each was last in use, and which to remove when their disk fills up.

An image is in use while a container refers to it, running or not, and so is what sandboxes are made from. Past the high
mark, images go in the order in which they were last used until the low mark is reached; never those in use, pinned, or
so new that a pod is likely to be on its way. With a maximum age, what nobody has used for that long goes too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.stats.machine import FileSystem, file_system
from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.runtimes.interface import Image, Runtime, RuntimeFault

EVERY: Final = 300.0
_LIST_EVERY: Final = 30.0
_log = log("collection")


@dataclass(slots=True)
class _Known:
    """An image as it was seen: when first, and when last in use (0: never since the agent runs)."""

    first: float
    used: float = 0.0


class Images:
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
        """As of the last look."""
        return self._present

    async def run(self) -> None:
        """Look twice a minute, collect every five, until cancelled."""
        collected = self._clock.monotonic()
        while True:
            try:
                await self.look()
                if self._clock.monotonic() - collected >= EVERY:
                    collected = self._clock.monotonic()
                    await self.collect()
            except (RuntimeFault, OSError) as error:
                _log.warning("images are not collected", why=str(error))
            await self._clock.sleep(_LIST_EVERY)

    async def look(self) -> set[str]:
        """List images and mark those in use; their ids. Raises RuntimeFault."""
        self._present = await self._runtime.images()
        self.mount_point = (await self._runtime.image_space())[0]
        now = self._clock.now()
        named = {name: image.id for image in self._present for name in (image.id, *image.tags, *image.digests)}
        used = {
            named[name]
            for container in await self._runtime.containers()
            for name in (container.image_id, container.image)
            if name in named
        }
        used |= {named[name] for name in (self._sandbox_image(),) if name in named}
        self._known = {image.id: self._known.get(image.id) or _Known(now) for image in self._present}
        for image in used:
            self._known[image].used = now
        return used

    async def collect(self) -> None:
        """Make room when the disk of images is past the high mark. Raises RuntimeFault, OSError."""
        await self._collect_old()
        space = file_system(self.mount_point)
        percent = 100 - space.available * 100 // space.capacity if space.capacity else 0
        if percent < self._kubelet.image_gc_high_threshold_percent:
            return
        missing = missing_bytes(space, self._kubelet.image_gc_low_threshold_percent)
        _log.info("images take too much of their disk", percent=percent, missing=missing)
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
        """Remove unused images until `missing` bytes are free; how many became so. Raises RuntimeFault."""
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
        """Those that may go, the longest unused first."""
        used, now = await self.look(), self._clock.now()
        free = [
            image
            for image in self._present
            if image.id not in used and not image.pinned and now - self._known[image.id].first >= least_age
        ]
        return sorted(free, key=lambda image: (self._known[image.id].used, self._known[image.id].first, image.id))

    async def _remove(self, image: Image) -> int:
        try:
            await self._runtime.remove_image(image.id, image.handler)
        except RuntimeFault as error:
            _log.warning("an image cannot be removed", image=image.id, why=str(error))
            return 0
        _log.info("an image is removed", image=image.id, tags=list(image.tags), bytes=image.size)
        self.removed += 1
        return image.size


def missing_bytes(space: FileSystem, low: int) -> int:
    """What has to become free so that no more than `low` percent are used."""
    return space.capacity * (100 - low) // 100 - space.available
