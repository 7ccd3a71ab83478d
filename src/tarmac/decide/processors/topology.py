"""The processors of a machine, and what each of them is part of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from tarmac.base.cpuset import CPUSet

Part = Literal["node", "socket", "core"]
PARTS: tuple[Part, ...] = ("node", "socket", "core")


class Place(NamedTuple):
    """Ids of what a processor is part of. That of a core is the number of its lowest processor."""

    node: int
    socket: int
    core: int


@dataclass(frozen=True)
class Topology:
    """The processors that are online, by number."""

    places: Mapping[int, Place]

    @staticmethod
    def flat(cpus: Iterable[int]) -> Topology:
        """Processors of which nothing more is known: each is a core of the one socket and the one NUMA node."""
        return Topology({cpu: Place(0, 0, cpu) for cpu in cpus})

    @cached_property
    def cpus(self) -> CPUSet:
        """All of them."""
        return CPUSet(self.places)

    @cached_property
    def members(self) -> Mapping[Part, Mapping[int, frozenset[int]]]:
        """The processors of each node, socket and core."""
        return {part: self._by(index) for index, part in enumerate(PARTS)}

    def _by(self, index: int) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        for cpu, place in self.places.items():
            found.setdefault(place[index], set()).add(cpu)
        return {number: frozenset(cpus) for number, cpus in found.items()}
