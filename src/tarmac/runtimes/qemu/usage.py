"""What machines use: of processors and memory what their cgroup does, the guest's pages included."""

from __future__ import annotations

from tarmac.base.clock import Clock
from tarmac.runtimes.interface import RuntimeUsage
from tarmac.runtimes.qemu.needs import Groups


class Usage:
    """Reads it, as of now."""

    def __init__(self, groups: Groups, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock

    def of(self, id: str, cgroup: str, received: int = 0, transmitted: int = 0) -> RuntimeUsage:
        """A machine and its sandbox have the same figures: nothing else is in the pod."""
        used = self._groups.usage(cgroup)
        return RuntimeUsage(
            id,
            at=self._clock.now(),
            cpu=used.cpu,
            memory_working_set=used.working_set,
            memory_rss=used.rss,
            memory_usage=used.working_set,
            received=received,
            transmitted=transmitted,
            processes=1,
        )
