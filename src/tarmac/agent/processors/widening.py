"""After the static policy: everybody may run everywhere again, and the file of that policy goes.

The runtime is told as well, because it remembers where it was told to put a container and would put it back there with
the next change of its limits. The file goes last: an agent that is killed before that begins anew.
"""

from __future__ import annotations

import asyncio

from tarmac.agent.cgroups.hierarchy import CgroupError, Hierarchy
from tarmac.agent.cgroups.pods import KubePods
from tarmac.agent.processors.state import StateFile
from tarmac.base.clock import Clock
from tarmac.base.cpuset import CPUSet
from tarmac.base.log import log
from tarmac.runtimes.interface import Resources, Runtime, RuntimeFault, Unreachable

_AGAIN = 1.0
_log = log("processors")


class Widening:
    """Done once."""

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
        """Whether an agent with the static policy was here before."""
        return self._file.exists()

    async def run(self) -> None:
        """Until it is done; then until cancelled."""
        while self.needed():
            try:
                await self.widen()
                self._file.remove()
            except (RuntimeFault, CgroupError, OSError) as error:
                _log.debug("pods are not on all processors yet", why=str(error))
                await self._clock.sleep(_AGAIN)
        await asyncio.Event().wait()

    async def widen(self) -> None:
        """Put every pod on all processors. Raises RuntimeFault, CgroupError."""
        for path in self._groups.paths().values():
            self._hierarchy.pin(path, self._online, {})
        for each in await self._runtime.containers():
            if each.state != "exited":
                await self._tell(each.id)

    async def _tell(self, id: str) -> None:
        try:
            await self._runtime.update_container(id, Resources(cpuset_cpus=str(self._online)))
        except Unreachable:
            raise
        except RuntimeFault as fault:
            _log.debug("the runtime does not change a container", container=id, why=str(fault))  # or it has ended
