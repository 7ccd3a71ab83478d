"""Which processors a request is given: whole nodes and sockets first, then whole cores, then single ones.

The order is that of kubelet's static policy without options, so that a machine moved from one to the other gives the
same processors. At each step ids are ordered by how many free processors they have, fewest first, then by number: what
is begun is used up before something whole is broken. NUMA nodes are outermost where there are at least as many
sockets; else sockets are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tarmac.base.cpuset import CPUSet
from tarmac.decide.processors.topology import PARTS, Part, Topology


class NotEnough(Exception):
    """Fewer processors are free than are asked for. The message is kubelet's."""

    def __init__(self, requested: int, available: int) -> None:
        super().__init__(f"not enough cpus available to satisfy request: requested={requested}, available={available}")
        self.requested = requested
        self.available = available


def take(topology: Topology, free: CPUSet, count: int) -> CPUSet:
    """So many of the free processors. Raises NotEnough."""
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
        """What is outermost, and what comes next."""
        members = self._topology.members
        return ("node", "socket") if len(members["socket"]) >= len(members["node"]) else ("socket", "node")

    def take_whole(self, *way: Part) -> None:
        """Every wholly free one of the last kind on the way that what is left to take covers."""
        for one in self._order(way, self._free):
            cpus = self._topology.members[way[-1]][one]
            if len(cpus) <= self._left and cpus <= self._free:
                self._take(cpus)

    def take_single(self, *way: Part) -> None:
        """What is left to take, core by core."""
        for one in self._order(way, self._free):
            cpus = self._topology.members[way[-1]][one] & self._free
            self._take(sorted(cpus)[: self._left])

    def _take(self, cpus: Iterable[int]) -> None:
        taken = set(cpus)
        self.taken |= taken
        self._free -= taken
        self._left -= len(taken)

    def _order(self, way: Sequence[Part], cpus: Iterable[int]) -> list[int]:
        """Ids of the last kind on the way: in order inside each of the kind before it, and these in order."""
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
