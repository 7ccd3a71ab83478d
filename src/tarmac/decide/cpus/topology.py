"""CPU topology of a host: the core, socket and NUMA node of each CPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from tarmac.base.cpuset import CPUSet

Part = Literal["node", "socket", "core"]
PARTS: tuple[Part, ...] = ("node", "socket", "core")


class CpuPosition(NamedTuple):
    """Ids of a CPU's NUMA node, socket and core. The id of a core is the number of its lowest CPU."""

    node: int
    socket: int
    core: int


@dataclass(frozen=True)
class Topology:
    """The online CPUs by number."""

    places: Mapping[int, CpuPosition]

    @staticmethod
    def flat(cpus: Iterable[int]) -> Topology:
        """Return a topology for CPUs without known structure: each is a core of a single socket and NUMA node."""
        return Topology({cpu: CpuPosition(0, 0, cpu) for cpu in cpus})

    @cached_property
    def cpus(self) -> CPUSet:
        """All CPUs."""
        return CPUSet(self.places)

    @cached_property
    def members(self) -> Mapping[Part, Mapping[int, frozenset[int]]]:
        """The CPUs of each NUMA node, socket and core."""
        return {part: self._by(index) for index, part in enumerate(PARTS)}

    def _by(self, index: int) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        for cpu, place in self.places.items():
            found.setdefault(place[index], set()).add(cpu)
        return {number: frozenset(cpus) for number, cpus in found.items()}
