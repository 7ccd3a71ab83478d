"""The reserved processors, which nobody ever has to himself, and the ones that all containers without their own share.

How many are reserved follows from what is held back for the machine, and not from oversubscription: lending idle
processors out twice makes none of them anybody's own.
"""

from __future__ import annotations

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.decide.processors.packing import take
from tarmac.decide.processors.topology import Topology
from tarmac.decide.scheduling.amounts import CPU


def reserved_count(reservations: Reservations) -> int:
    """How many processors are reserved."""
    return -(-reservations.held(CPU) // 1000)


def reserved_pool(topology: Topology, reservations: Reservations) -> CPUSet:
    """Which: those named by number, else the first ones. Raises NotEnough."""
    named = reservations.reserved_cpus
    return named if named is not None else take(topology, topology.cpus, reserved_count(reservations))


def exclusive_capacity(processors: int, reservations: Reservations) -> int:
    """How many of a node's processors can be given to containers for themselves."""
    return max(0, processors - reserved_count(reservations))


def shared_pool(topology: Topology, reserved: CPUSet, exclusive: CPUSet, strict: bool) -> CPUSet:
    """What everybody else runs on; `strict`: not on the reserved ones, unless there are no others."""
    others = topology.cpus - exclusive
    return (others - reserved or reserved) if strict else others
