"""Capacity less reservations plus oversubscription, number for number as kubelets compute it."""

from __future__ import annotations

import pytest

from tarmac.base.cpuset import CPUSet
from tarmac.decide.allocatable.ledger import node_ledger, objections, sized
from tarmac.decide.allocatable.reservations import Reservations, Reserved, oversubscription_of, reserved_amounts
from tarmac.decide.allocatable.thresholds import DEFAULT_HARD, thresholds
from tarmac.decide.amounts import Amounts

CAPACITY = {"cpu": 104_000, "memory": 10 << 30, "ephemeral-storage": 100 << 30, "pods": 110}
LENT = (0, 1000, 1500, 4000, 5000)


def schedulable(capacity: Amounts, reservations: Reservations) -> Amounts:
    return node_ledger(sized(capacity, reservations)).amounts("allocatable")


def enforced(capacity: Amounts, reservations: Reservations) -> Amounts:
    return node_ledger(sized(capacity, reservations)).amounts("enforced")


@pytest.mark.parametrize(
    ("system", "kube", "cpus", "expected"),
    [
        (0, 0, None, (104_000, 105_000, 105_500, 108_000, 109_000)),
        (2000, 0, None, (102_000, 103_000, 103_500, 106_000, 107_000)),
        (0, 2000, None, (102_000, 103_000, 103_500, 106_000, 107_000)),
        (2000, 2000, None, (100_000, 101_000, 101_500, 104_000, 105_000)),
        (500, 500, None, (103_000, 104_000, 104_500, 107_000, 108_000)),
        (250, 0, None, (103_750, 104_750, 105_250, 107_750, 108_750)),
        (2000, 700, CPUSet((0, 1, 52, 53)), (100_000, 101_000, 101_500, 104_000, 105_000)),
    ],
)
@pytest.mark.parametrize("eviction", [{}, {"memory.available": "100Mi"}, {"memory.available": "5%"}])
def test_processors(
    system: int, kube: int, cpus: CPUSet | None, expected: tuple[int, ...], eviction: dict[str, str]
) -> None:
    held = thresholds(eviction, {}, {}, {})
    for lent, amount in zip(LENT, expected, strict=True):
        reservations = Reservations({"cpu": Reserved(system)}, {"cpu": Reserved(kube)}, held, cpus, lent)
        assert schedulable(CAPACITY, reservations)["cpu"] == amount
        assert enforced(CAPACITY, reservations)["cpu"] == expected[0]


def test_the_kernel_never_gives_more_than_there_is() -> None:
    assert enforced(CAPACITY, Reservations(oversubscription=50_000))["cpu"] == 104_000


def test_memory_is_held_back_for_eviction_but_enforced_without() -> None:
    reservations = Reservations(
        {"memory": Reserved(1 << 30)}, eviction=thresholds({"memory.available": "5%"}, {}, {}, {})
    )
    assert schedulable(CAPACITY, reservations)["memory"] == (9 << 30) - 536_870_920
    assert enforced(CAPACITY, reservations)["memory"] == 9 << 30


def test_a_node_without_any_setting() -> None:
    found = schedulable(CAPACITY, Reservations(eviction=thresholds(DEFAULT_HARD, {}, {}, {})))
    assert found["memory"] == (10 << 30) - (100 << 20)
    assert found["ephemeral-storage"] == (100 << 30) - int(float(100 << 30) * 0.10000000149011612)
    assert found["pods"] == 110


def test_soft_thresholds_hold_nothing_back() -> None:
    soft = thresholds({}, {"memory.available": "1Gi"}, {"memory.available": "1m"}, {})
    assert schedulable(CAPACITY, Reservations(eviction=soft))["memory"] == 10 << 30


def test_huge_pages_are_no_ordinary_memory() -> None:
    found = schedulable({**CAPACITY, "hugepages-2Mi": 1 << 30}, Reservations())
    assert (found["memory"], found["hugepages-2Mi"]) == (9 << 30, 1 << 30)


def test_reserving_more_than_there_is_is_refused_whatever_is_lent() -> None:
    lent = Reservations({"cpu": Reserved(104_000)}, {"cpu": Reserved(1)}, oversubscription=9000)
    assert objections(sized(CAPACITY, lent)) == [
        'Resource "cpu" has a reservation of 104001m but capacity of 104. Expected capacity >= reservation.'
    ]
    assert objections(sized(CAPACITY, Reservations({"cpu": Reserved(104_000)}))) == []


@pytest.mark.parametrize(("text", "milli"), [("200.5m", 201), ("200.4m", 200), ("1", 1000), ("0.1", 100)])
def test_reserved_processors_are_rounded_half_up(text: str, milli: int) -> None:
    assert reserved_amounts({"cpu": text}, "file") == {"cpu": Reserved(milli, "file")}


@pytest.mark.parametrize("text", ["-1", "x", "1.5.5"])
def test_a_reservation_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        reserved_amounts({"memory": text}, "file")


@pytest.mark.parametrize(("text", "milli"), [("1.5", 1500), (1.5, 1500), ("1500m", 1500), (0, 0), ("0.0005", 1)])
def test_oversubscription_is_exact(text: str | float, milli: int) -> None:
    assert oversubscription_of(text) == milli


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "1e40"])
def test_oversubscription_that_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        oversubscription_of(text)


def test_all_pods_together_leave_processes_to_the_machine() -> None:
    assert enforced({"pid": 32_768}, Reservations())["pid"] == 29_492
    assert enforced({"pid": 32_768}, Reservations({"pid": Reserved(1000)}, {"pid": Reserved(500)}))["pid"] == 31_268
    assert "pid" in objections(sized({"pid": 1000}, Reservations({"pid": Reserved(1001)})))[0]
