"""Reserved processors, the number left for exclusive use, and the shared ones."""

from __future__ import annotations

import pytest

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Reservations, Reserved
from tarmac.decide.cpus.pools import exclusive_capacity, reserved_count, reserved_pool, shared_pool
from tarmac.decide.cpus.topology import Topology
from tests.decide.cpus.machines import siblings

OVERSUBSCRIPTIONS = (0, 1000, 1500, 4000, 5000)


def reservations(system: int, kube: int, named: int | None, oversubscription: int = 0) -> Reservations:
    return Reservations(
        system={"cpu": Reserved(system)},
        kube={"cpu": Reserved(kube)},
        reserved_cpus=None if named is None else CPUSet(range(named)),
        oversubscription=oversubscription,
    )


@pytest.mark.parametrize(
    ("system", "kube", "named", "pool"),
    [
        (0, 0, None, 0),
        (2000, 0, None, 2),
        (0, 2000, None, 2),
        (2000, 2000, None, 4),
        (500, 500, None, 1),
        (250, 0, None, 1),
        (2000, 2000, 4, 4),
        (0, 0, 4, 4),
    ],
)
@pytest.mark.parametrize("oversubscription", OVERSUBSCRIPTIONS)
def test_the_reserved_pool_does_not_follow_oversubscription(
    system: int, kube: int, named: int | None, pool: int, oversubscription: int
) -> None:
    held = reservations(system, kube, named, oversubscription)
    assert reserved_count(held) == pool
    assert exclusive_capacity(104, held) == 104 - pool
    assert len(reserved_pool(Topology.flat(range(104)), held)) == pool


def test_the_reserved_ones_are_chosen_like_all_others_or_named() -> None:
    assert str(reserved_pool(siblings(), reservations(1500, 0, None))) == "0,8"
    assert str(reserved_pool(siblings(), reservations(1500, 0, 3))) == "0-2"


def test_the_shared_pool_excludes_exclusive_and_reserved_cpus() -> None:
    machine, reserved = Topology.flat(range(4)), CPUSet([0])
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-2"), strict=False)) == "0,3"
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-2"), strict=True)) == "3"
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-3"), strict=True)) == "0"
