"""Resource usage of machines: CPU and memory are those of the pod's cgroup, which includes the guest's memory."""

from __future__ import annotations

from tarmac.base.clock import Clock
from tarmac.runtimes.interface import RuntimeUsage
from tarmac.runtimes.qemu.dependencies import MachineCgroups


class MachineUsage:
    """Reads current usage."""

    def __init__(self, groups: MachineCgroups, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock

    def of(self, id: str, cgroup: str, received: int = 0, transmitted: int = 0) -> RuntimeUsage:
        """Return the usage of a machine or its sandbox; both are equal, since the pod holds nothing else."""
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
