"""Control groups for the processes that serve a city's pods, each with its own memory limit.

    /tarmac-<id>                          the pods of all cities: limited number of processes
    /tarmac-<id>-system/<city>/runtime    containerd and its shims
    /tarmac-<id>-system/<city>/agent      the agent and its child processes
    /tarmac-<id>-system/registry          the registry, if there is one

Tenants send data to all of them. A process that exceeds its memory limit is killed by the kernel within its group,
restarted, and adopts the running pods; neither the host nor other cities are affected. Shims share containerd's group,
since gVisor's cannot have their own; there the kernel kills the largest process.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tarmac.agent.cgroups.hierarchy import Hierarchy
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.model.cgrouplimits import CgroupLimits
from tarmac.agent.stats.hostusage import MachineStats
from tarmac.apps.cities.layout import CityLayout
from tarmac.decide.allocatable.ledger import node_ledger, sized
from tarmac.decide.allocatable.reservations import PID, Reservations

_RUNTIME_MEMORY: Final = 2 << 30
_AGENT_MEMORY: Final = 1 << 30
_REGISTRY_MEMORY: Final = 1 << 30
_ENTER: Final = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit; shift; done; shift; exec "$@"'


class Confinement:
    """Creates the groups and starts processes in them."""

    def __init__(self, hierarchy: Hierarchy | None = None, stats: MachineStats | None = None) -> None:
        self._hierarchy = hierarchy or mounted()
        stats = stats or MachineStats()
        most, _ = stats.processes()
        self._processes = node_ledger(sized({PID: most}, Reservations())).amounts("enforced")[PID]
        self._max_memory = stats.memory().total // 4

    def prepare(self, city: CityLayout) -> None:
        """Create the groups of a city with their limits. Raises CgroupError."""
        self._hierarchy.make(city.cgroup)
        above = city.cgroup.rpartition("/")[0]
        self._hierarchy.limit(above, CgroupLimits(pids=self._processes))
        for path, memory in ((_runtime(city), _RUNTIME_MEMORY), (_agent(city), _AGENT_MEMORY)):
            self._hierarchy.make(path)
            self._hierarchy.limit(path, CgroupLimits(memory=min(memory, self._max_memory)))

    def runtime(self, city: CityLayout) -> tuple[str, ...]:
        """Return a command prefix that runs a command in containerd's group; child processes inherit it."""
        return self._inside(_runtime(city))

    def agent(self, city: CityLayout) -> tuple[str, ...]:
        """Return the command prefix for the agent's group."""
        return self._inside(_agent(city))

    def registry(self, above: str) -> tuple[str, ...]:
        """Create a group for the registry next to the cities' own processes; return its prefix. Raises CgroupError."""
        path = f"{above}/registry"
        self._hierarchy.make(path)
        self._hierarchy.limit(path, CgroupLimits(memory=min(_REGISTRY_MEMORY, self._max_memory)))
        return self._inside(path)

    def adopt_runtime(self, city: CityLayout, processes: Iterable[int]) -> None:
        """Move a containerd that is already running, and its shims, into its group."""
        for process in processes:
            for entrance in self._hierarchy.entrances(_runtime(city)):
                with suppress(ProcessLookupError):  # it has exited
                    entrance.write_text(str(process))

    def _inside(self, path: str) -> tuple[str, ...]:
        # Enters the group before the program starts: between its start and a later move it could allocate without
        # limit.
        return ("sh", "-c", _ENTER, "sh", *map(str, self._hierarchy.entrances(path)), "--")


def _runtime(city: CityLayout) -> str:
    return f"{city.own_cgroup}/runtime"


def _agent(city: CityLayout) -> str:
    return f"{city.own_cgroup}/agent"
