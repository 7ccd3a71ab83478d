"""Control groups for what serves a city's pods, each with a limit of memory of its own.

    /tarmac-<id>                          the pods of all cities: fewer processes than the machine can have
    /tarmac-<id>-system/<city>/runtime    containerd and its shims
    /tarmac-<id>-system/<city>/agent      the agent and what it calls
    /tarmac-<id>-system/registry          the registry, if there is one

Tenants send bytes to all of them. One that is made to take too much memory is ended by the kernel within its group, is
started again and adopts what runs; neither the machine nor another city notices. Shims share containerd's group, since
gVisor's can be given none of their own; there the kernel ends whoever is largest.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tarmac.agent.cgroups.hierarchy import Hierarchy, mounted
from tarmac.agent.model.limits import Limits
from tarmac.agent.stats.machine import MachineStats
from tarmac.apps.cities.layout import CityLayout
from tarmac.decide.allocatable.ledger import node_ledger, sized
from tarmac.decide.allocatable.reservations import PID, Reservations

_RUNTIME_MEMORY: Final = 2 << 30
_AGENT_MEMORY: Final = 1 << 30
_REGISTRY_MEMORY: Final = 1 << 30
_ENTER: Final = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit; shift; done; shift; exec "$@"'


class Confinement:
    """Makes the groups and puts processes into them."""

    def __init__(self, hierarchy: Hierarchy | None = None, stats: MachineStats | None = None) -> None:
        self._hierarchy = hierarchy or mounted()
        stats = stats or MachineStats()
        most, _ = stats.processes()
        self._processes = node_ledger(sized({PID: most}, Reservations())).amounts("enforced")[PID]
        self._most = stats.memory().total // 4

    def prepare(self, city: CityLayout) -> None:
        """Have the groups of a city, with their limits. Raises CgroupError."""
        self._hierarchy.make(city.cgroup)
        above = city.cgroup.rpartition("/")[0]
        self._hierarchy.limit(above, Limits(pids=self._processes))
        for path, memory in ((_runtime(city), _RUNTIME_MEMORY), (_agent(city), _AGENT_MEMORY)):
            self._hierarchy.make(path)
            self._hierarchy.limit(path, Limits(memory=min(memory, self._most)))

    def runtime(self, city: CityLayout) -> tuple[str, ...]:
        """A command that becomes the one given to it, in the group of containerd. What that starts comes with it."""
        return self._inside(_runtime(city))

    def agent(self, city: CityLayout) -> tuple[str, ...]:
        """The same, in the group of the agent."""
        return self._inside(_agent(city))

    def registry(self, above: str) -> tuple[str, ...]:
        """The same, in a group for the registry below that of all cities' own processes. Raises CgroupError."""
        path = f"{above}/registry"
        self._hierarchy.make(path)
        self._hierarchy.limit(path, Limits(memory=min(_REGISTRY_MEMORY, self._most)))
        return self._inside(path)

    def adopt_runtime(self, city: CityLayout, processes: Iterable[int]) -> None:
        """A containerd that runs already, perhaps since before there were groups, and its shims."""
        for process in processes:
            for entrance in self._hierarchy.entrances(_runtime(city)):
                with suppress(ProcessLookupError):  # it has ended
                    entrance.write_text(str(process))

    def _inside(self, path: str) -> tuple[str, ...]:
        # Before the program begins: between its start and a move from outside it could be made to swallow anything.
        return ("sh", "-c", _ENTER, "sh", *map(str, self._hierarchy.entrances(path)), "--")


def _runtime(city: CityLayout) -> str:
    return f"{city.own_cgroup}/runtime"


def _agent(city: CityLayout) -> str:
    return f"{city.own_cgroup}/agent"
