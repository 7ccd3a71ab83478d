"""Which processors are reserved, how many are left for exclusive use, and what the others share."""

from __future__ import annotations

import pytest

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.reservations import Reservations, Reserved, schedulable
from tarmac.decide.processors.pools import exclusive_capacity, reserved_count, reserved_pool, shared_pool
from tarmac.decide.processors.topology import Topology
from tests.decide.processors.machines import siblings

CAPACITY = 104_000
OVERSUBSCRIPTIONS = (0, 1000, 1500, 4000, 5000)


def reservations(system: int, kube: int, named: int | None, oversubscription: int = 0) -> Reservations:
    return Reservations(
        system={"cpu": Reserved(system)},
        kube={"cpu": Reserved(kube)},
        reserved_cpus=None if named is None else CPUSet(range(named)),
        oversubscription=oversubscription,
    )


@pytest.mark.parametrize(
    ("system", "kube", "named", "allocatable", "pool"),
    [
        (0, 0, None, (104000, 105000, 105500, 108000, 109000), 0),
        (2000, 0, None, (102000, 103000, 103500, 106000, 107000), 2),
        (0, 2000, None, (102000, 103000, 103500, 106000, 107000), 2),
        (2000, 2000, None, (100000, 101000, 101500, 104000, 105000), 4),
        (500, 500, None, (103000, 104000, 104500, 107000, 108000), 1),
        (250, 0, None, (103750, 104750, 105250, 107750, 108750), 1),
        (2000, 2000, 4, (100000, 101000, 101500, 104000, 105000), 4),
        (0, 0, 4, (100000, 101000, 101500, 104000, 105000), 4),
    ],
)
def test_the_reserved_pool_does_not_follow_oversubscription(
    system: int, kube: int, named: int | None, allocatable: tuple[int, ...], pool: int
) -> None:
    for oversubscription, expected in zip(OVERSUBSCRIPTIONS, allocatable, strict=True):
        held = reservations(system, kube, named, oversubscription)
        assert schedulable({"cpu": CAPACITY}, held) == {"cpu": expected}
        assert reserved_count(held) == pool
        assert exclusive_capacity(104, held) == 104 - pool
        assert len(reserved_pool(Topology.flat(range(104)), held)) == pool


def test_the_reserved_ones_are_chosen_like_all_others_or_named() -> None:
    assert str(reserved_pool(siblings(), reservations(1500, 0, None))) == "0,8"
    assert str(reserved_pool(siblings(), reservations(1500, 0, 3))) == "0-2"


def test_what_is_shared() -> None:
    machine, reserved = Topology.flat(range(4)), CPUSet([0])
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-2"), strict=False)) == "0,3"
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-2"), strict=True)) == "3"
    assert str(shared_pool(machine, reserved, CPUSet.parse("1-3"), strict=True)) == "0"
