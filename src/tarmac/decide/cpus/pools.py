"""The reserved CPUs, which are never exclusive, and the shared CPUs of all containers without exclusive ones.

The number of reserved CPUs follows from the resources reserved for the host, not from oversubscription: lending idle
CPUs twice creates no CPU that could be exclusive.
"""

from __future__ import annotations

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Reservations
from tarmac.decide.amounts import CPU
from tarmac.decide.cpus.packing import take
from tarmac.decide.cpus.topology import Topology


def reserved_count(reservations: Reservations) -> int:
    """Return the number of reserved CPUs."""
    return -(-reservations.held(CPU) // 1000)


def reserved_pool(topology: Topology, reservations: Reservations) -> CPUSet:
    """Return the reserved CPUs: those configured by number, else the first ones in packing order. Raises NotEnough."""
    named = reservations.reserved_cpus
    return named if named is not None else take(topology, topology.cpus, reserved_count(reservations))


def exclusive_capacity(processors: int, reservations: Reservations) -> int:
    """Return the number of a node's CPUs that can be exclusive."""
    return max(0, processors - reserved_count(reservations))


def shared_pool(topology: Topology, reserved: CPUSet, exclusive: CPUSet, strict: bool) -> CPUSet:
    """Return the shared CPUs; `strict`: without the reserved ones, unless no other CPUs are left."""
    others = topology.cpus - exclusive
    return (others - reserved or reserved) if strict else others
