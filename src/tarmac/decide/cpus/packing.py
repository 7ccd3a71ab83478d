"""Chooses CPUs for a request: whole NUMA nodes and sockets first, then whole cores, then single CPUs.

The order is that of the kubelet's static policy without options, so that a host migrated from it gives the same CPUs.
At each step ids are sorted by their number of free CPUs, fewest first, then by id: partially used parts are filled
before whole ones are split. NUMA nodes are outermost if there are at least as many sockets; else sockets are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.topology import PARTS, Part, Topology


class NotEnough(Exception):
    """Fewer CPUs are free than requested. The message is the kubelet's."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")
        self.requested = requested
        self.available = available


def take(topology: Topology, free: CPUSet, count: int) -> CPUSet:
    """Return `count` of the free CPUs. Raises NotEnough."""
    if count > len(free):
        raise NotEnough(count, len(free))
    packing = _Packing(topology, free, count)
    outer, inner = packing.levels
    packing.take_whole(outer)
    packing.take_whole(outer, inner)
    packing.take_whole(outer, inner, "core")
    packing.take_single(outer, inner, "core")
    return CPUSet(packing.taken)


class _Packing:
    def __init__(self, topology: Topology, free: CPUSet, count: int) -> None:
        self.taken: set[int] = set()
        self._topology = topology
        self._free = set(free)
        self._left = count

    @property
    def levels(self) -> tuple[Part, Part]:
        """The outermost level and the next one."""
        members = self._topology.members
        return ("node", "socket") if len(members["socket"]) >= len(members["node"]) else ("socket", "node")

    def take_whole(self, *way: Part) -> None:
        """Take every completely free part of the last level of `way` that fits into the remaining count."""
        for one in self._order(way, self._free):
            cpus = self._topology.members[way[-1]][one]
            if len(cpus) <= self._left and cpus <= self._free:
                self._take(cpus)

    def take_single(self, *way: Part) -> None:
        """Take the remaining count, core by core."""
        for one in self._order(way, self._free):
            cpus = self._topology.members[way[-1]][one] & self._free
            self._take(sorted(cpus)[: self._left])

    def _take(self, cpus: Iterable[int]) -> None:
        taken = set(cpus)
        self.taken |= taken
        self._free -= taken
        self._left -= len(taken)

    def _order(self, way: Sequence[Part], cpus: Iterable[int]) -> list[int]:
        """Return the ids of the last level of `way`, sorted within each part of the level before it, recursively."""
        part, *inner = way
        groups = self._grouped(part, cpus)
        ids = sorted(groups, key=lambda one: (len(groups[one]), one))
        if not inner:
            return ids
        return list(dict.fromkeys(each for one in ids for each in self._order(inner, groups[one])))

    def _grouped(self, part: Part, cpus: Iterable[int]) -> dict[int, list[int]]:
        index, places = PARTS.index(part), self._topology.places
        groups: dict[int, list[int]] = {}
        for cpu in cpus:
            groups.setdefault(places[cpu][index], []).append(cpu)
        return groups
