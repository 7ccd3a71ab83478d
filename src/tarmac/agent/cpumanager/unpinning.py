"""Removes all CPU pinning after the static policy was turned off, then the file of that policy.

The runtime is updated too, because it remembers a container's CPUs and would restore them with the next change of
limits. The file goes last: an agent killed before that starts over.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cpumanager.statefile import StateFile
from tarmac.base.clock import Clock
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.runtimes.interface import Resources, Runtime, RuntimeFault, RuntimeUnreachable

_RETRY_INTERVAL = 1.0
_log = log("processors")


class Unpinning:
    """Undoes the pinning once."""

    def __init__(
        self, hierarchy: Hierarchy, groups: KubePods, runtime: Runtime, online: CPUSet, file: StateFile, clock: Clock
    ) -> None:
        self._hierarchy = hierarchy
        self._groups = groups
        self._runtime = runtime
        self._online = online
        self._file = file
        self._clock = clock

    def needed(self) -> bool:
        """Return True if an agent with the static policy ran here before."""
        return self._file.exists()

    async def run(self) -> None:
        """Retry until it succeeds; then wait until cancelled."""
        while self.needed():
            try:
                await self.widen()
                # Only after all containers are wide: the file is what makes the next agent finish the rest after a
                # kill.
                self._file.remove()
            except (RuntimeFault, CgroupError, OSError) as error:
                _log.debug("CPU pinning cannot be removed yet, will retry", why=str(error))
                await self._clock.sleep(_RETRY_INTERVAL)
        await asyncio.Event().wait()

    async def widen(self) -> None:
        """Place all pods on all CPUs. Raises RuntimeFault, CgroupError."""
        # Groups before the runtime: a container cannot get CPUs that its parent group lacks.
        for path in self._groups.paths().values():
            self._hierarchy.pin(path, self._online, {})
        for each in await self._runtime.containers():
            if each.state != "exited":
                await self._update_runtime(each.id)

    async def _update_runtime(self, id: str) -> None:
        try:
            await self._runtime.update_container(id, Resources(cpuset_cpus=str(self._online)))
        except RuntimeUnreachable:
            raise
        except RuntimeFault as fault:
            _log.debug("runtime refused to change a container's CPUs", container=id, why=str(fault))  # or it has ended
