"""Reports the progress of a pull. CRI cannot; containerd's own content service, on the same socket, lists downloads.

The list does not name the images. So progress is reported only while a single pull runs; sequential pulls are the
default of nodes. A download that has left the list is complete: its size stays counted.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.channel import CriChannel
from tarmac.runtimes.interface import Progress, RuntimeFault

_METHOD = "containerd.services.content.v1.Content/ListStatuses"
_NAMESPACE = (("containerd-namespace", "k8s.io"),)
_INTERVAL_SECONDS = 1.0


class PullProgress:
    """The pulls in progress."""

    def __init__(self, channel: CriChannel, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._pulls = 0

    @contextlib.asynccontextmanager
    async def reporting_to(self, progress: Progress | None) -> AsyncGenerator[None]:
        """Report progress of the pull that runs inside the block."""
        self._pulls += 1
        tasks = Tasks()
        if progress:
            tasks.begin(self._follow(progress), "progress of a pull")
        try:
            yield
        finally:
            self._pulls -= 1
            await tasks.close()

    async def _follow(self, progress: Progress) -> None:
        """Report until cancelled, or until the runtime turns out not to support it."""
        seen: dict[str, tuple[int, int]] = {}
        with contextlib.suppress(RuntimeFault):
            while True:
                await self._clock.sleep(_INTERVAL_SECONDS)
                coming = await self._downloads()
                seen = {ref: (total, total) for ref, (_, total) in seen.items()} | coming
                if seen and self._pulls == 1:
                    progress(sum(here for here, _ in seen.values()), sum(total for _, total in seen.values()))

    async def _downloads(self) -> dict[str, tuple[int, int]]:
        decode = pb.ListStatusesResponse.FromString
        reply = await self._channel.call(_METHOD, pb.Nothing(), decode, _INTERVAL_SECONDS * 10, _NAMESPACE)
        return {each.ref: (each.offset, each.total) for each in reply.statuses if each.total}
