"""Every number of a node and its source, which survive encoding into a Node's status."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest

from tarmac.api.kubernetes.core.nodeclasses import OfferedClasses, OfferedType
from tarmac.base.cpuset import CPUSet
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.accounts import NodeLedger, PodEntry
from tarmac.decide.allocatable.ledger import node_ledger, objections, sized
from tarmac.decide.allocatable.nodestatus import ledger_of_node, sizes_in_status, three_decimals
from tarmac.decide.allocatable.reservations import Holding, Reservations, Reserved
from tarmac.decide.allocatable.thresholds import DEFAULT_HARD, thresholds
from tarmac.decide.cpus.pools import exclusive_capacity

CAPACITY = {"cpu": 104_000, "memory": 10 << 30, "ephemeral-storage": 100 << 30, "pods": 110}
LENT = (0, 1000, 1500, 4000, 5000)
MATRIX = [
    (0, 0, None, (104_000, 105_000, 105_500, 108_000, 109_000), 0),
    (2000, 0, None, (102_000, 103_000, 103_500, 106_000, 107_000), 2),
    (0, 2000, None, (102_000, 103_000, 103_500, 106_000, 107_000), 2),
    (2000, 2000, None, (100_000, 101_000, 101_500, 104_000, 105_000), 4),
    (500, 500, None, (103_000, 104_000, 104_500, 107_000, 108_000), 1),
    (250, 0, None, (103_750, 104_750, 105_250, 107_750, 108_750), 1),
    (2000, 700, CPUSet((0, 1, 52, 53)), (100_000, 101_000, 101_500, 104_000, 105_000), 4),
]
EVICTIONS = ({}, {"memory.available": "100Mi"}, {"memory.available": "5%"})
SOURCES = ("file", "flag", "provider gke")


def node(ledger: NodeLedger, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", **metadata}, "status": sizes_in_status(ledger)}


def lent(milli: int, system: int = 0, kube: int = 0) -> Reservations:
    return Reservations({"cpu": Reserved(system, "file")}, {"cpu": Reserved(kube, "flag")}, oversubscription=milli)


@pytest.mark.parametrize(("system", "kube", "cpus", "expected", "pool"), MATRIX)
@pytest.mark.parametrize("eviction", EVICTIONS)
def test_oversubscription_moves_allocatable_and_nothing_else(
    system: int, kube: int, cpus: CPUSet | None, expected: tuple[int, ...], pool: int, eviction: dict[str, str]
) -> None:
    held = thresholds(eviction, {}, {}, {})
    found: list[NodeLedger] = []
    for source, (amount, milli), static in product(SOURCES, zip(expected, LENT, strict=True), (False, True)):
        said = {"cpu": Reserved(system, source)}, {"cpu": Reserved(kube, source)}
        reservations = Reservations(*said, held, cpus, milli)
        own = exclusive_capacity(104, reservations) if static else None
        ledger = node_ledger(sized(CAPACITY, reservations, exclusive=own))
        cpu = ledger["cpu"]
        assert (cpu.allocatable, cpu.oversubscription, cpu.enforced) == (amount, milli, expected[0])
        assert (cpu.exclusive and cpu.exclusive.capacity) == ((104 - pool) * 1000 if static else None)
        assert all(each.source == (source if cpus is None else "reservedSystemCPUs") for each in cpu.reserved)
        found.append(ledger)
    others = {tuple(each for each in ledger.resources if each.resource != "cpu") for ledger in found}
    assert len(others) == 1


@pytest.mark.parametrize("text", [None, 0, "0", "0.0"])
def test_no_oversubscription_leaves_no_entry(text: str | int | None) -> None:
    told = sizes_in_status(
        node_ledger(sized(CAPACITY, lent(0 if text is None else Quantity.parse(text).milli(), 2000)))
    )
    assert "cpu oversubscription" not in told["capacity"]


def test_more_reserved_than_there_is_is_refused_whatever_is_lent() -> None:
    for milli in LENT:
        assert objections(sized(CAPACITY, lent(milli, 104_000))) == []
        assert "104001m" in objections(sized(CAPACITY, lent(milli, 104_000, 1)))[0]


def test_every_reserved_amount_has_a_purpose_and_a_source() -> None:
    eviction = thresholds(DEFAULT_HARD, {}, {}, {})
    said = {"cpu": Reserved(2000, "provider gke"), "memory": Reserved(1 << 30, "flag"), "pid": Reserved(500, "file")}
    capacity = {**CAPACITY, "hugepages-2Mi": 1 << 30, "pid": 32_768, "example.com/gpu": 4}
    reservations = Reservations(said, {"cpu": Reserved(2000, "file")}, eviction)
    ledger = node_ledger(sized(capacity, reservations, failing_devices={"example.com/gpu": 1}))
    assert ledger["cpu"].reserved == (Holding("system", 2000, "provider gke"), Holding("kube", 2000, "file"))
    assert ledger["memory"].reserved == (
        Holding("system", 1 << 30, "flag"),
        Holding("eviction", 100 << 20, "evictionHard"),
        Holding("hugepages", 1 << 30, "kernel"),
    )
    assert ledger["pid"].reserved == (Holding("system", 500, "file"),)
    assert (ledger["example.com/gpu"].capacity, ledger["example.com/gpu"].allocatable) == (4, 3)
    for each in ledger.resources:
        assert each.allocatable == each.capacity - each.held()


def test_pods_commit_what_they_ask_for_and_have() -> None:
    own = {"main": CPUSet((4, 5))}, {"first": CPUSet((6,)), "main": CPUSet((6, 7))}
    pods = [
        PodEntry("default", "a", {"cpu": 2000, "memory": 1 << 30}, 2048, own[0], places={("blockio", "slow"): 1}),
        PodEntry("default", "b", {"cpu": 2000}, 2048, own[1], places={("blockio", "slow"): 2}),
        PodEntry("default", "c", {"example.com/gpu": 1}),
    ]
    slow = OfferedType(False, {"slow": 4, "fast": None})
    offered = OfferedClasses(pod={"net": OfferedType(True, {"gold": 1})}, container={"blockio": slow})
    size = sized(CAPACITY, lent(0, 4000), exclusive=100)
    ledger = node_ledger(size, pods, offered, {"cpu": 700})
    cpu = ledger["cpu"]
    assert cpu.exclusive is not None
    assert (cpu.committed, cpu.used, cpu.exclusive.committed) == (4000, 700, 4000)
    assert (ledger["memory"].committed, ledger["memory"].used, ledger["pods"].committed) == (1 << 30, None, 3)
    assert ledger["example.com/gpu"].committed == 1
    counts = [(each.type, each.name, each.capacity, each.used, each.pod_level) for each in ledger.classes]
    assert counts == [
        ("net", "gold", 1, 0, True), ("blockio", "slow", 4, 3, False), ("blockio", "fast", None, 0, False),
    ]  # fmt: skip


def test_a_status_says_all_that_the_ledger_says() -> None:
    eviction = thresholds(DEFAULT_HARD, {}, {}, {})
    for milli in LENT:
        said = Reservations({"cpu": Reserved(2000, "file")}, {"cpu": Reserved(500, "flag")}, eviction, None, milli)
        ledger = node_ledger(sized({**CAPACITY, "hugepages-2Mi": 1 << 30}, said, exclusive=101))
        assert ledger_of_node(node(ledger)) == ledger


def test_a_server_without_the_field_has_the_same_in_an_annotation() -> None:
    ledger = node_ledger(sized(CAPACITY, lent(1000, 2000, 2000)))
    bare = node(ledger)
    text = json.dumps({"reservations": bare["status"].pop("reservations")})
    bare["metadata"]["annotations"] = {"node.tarmac/resources": text}
    assert ledger_of_node(bare) == ledger


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"reservations": 7}', '{"reservations": [7]}', '{"reservations": [{"resource": "cpu"}]}',
     '{"reservations": [{"resource": "cpu", "for": "system", "amount": "x"}]}', '{"reservations":' + "[" * 9999],
)  # fmt: skip
def test_reservations_without_an_owner_are_unexplained(text: str) -> None:
    bare = node(node_ledger(sized(CAPACITY, lent(1000, 2000, 2000))), annotations={"node.tarmac/resources": text})
    del bare["status"]["reservations"]
    cpu = ledger_of_node(bare)["cpu"]
    assert [(each.purpose, each.amount) for each in cpu.reserved] == [("unexplained", 4000)]
    assert (cpu.capacity, cpu.oversubscription, cpu.allocatable, cpu.enforced) == (104_000, 1000, 101_000, None)


def test_devices_that_are_missing_from_allocatable_are_unhealthy() -> None:
    bare = {"metadata": {"name": "n"}, "status": {"capacity": {"a.com/gpu": "4"}, "allocatable": {"a.com/gpu": "1"}}}
    assert ledger_of_node(bare)["a.com/gpu"].reserved == (Holding("unhealthy", 3, "device plugin"),)


def test_a_node_that_nobody_filled_has_nothing() -> None:
    assert ledger_of_node({"metadata": {"name": "n"}}).resources == ()


@pytest.mark.parametrize(
    ("milli", "read", "stored"),
    [(1000, "1.000", "1"), (1500, "1.500", "1.500"), (250, "0.250", "250m"), (1, "0.001", "1m"),
     (10_000, "10.000", "10"), (1_000_000, "1000.000", "1k"), (104_125, "104.125", "104.125")],
)  # fmt: skip
def test_three_decimals_as_people_read_them_and_as_servers_keep_them(milli: int, read: str, stored: str) -> None:
    told = sizes_in_status(node_ledger(sized(CAPACITY, lent(milli))))
    assert (three_decimals(milli), told["capacity"]["cpu oversubscription"]) == (read, stored)


def test_sizes_survive_a_round_trip_through_the_status() -> None:
    draw = random.Random(1)
    for _ in range(1000):
        bits = draw.randrange(1, 40)
        capacity = {name: draw.randrange(1, 1 << bits) * draw.choice((1, 1000, 1024)) for name in (*CAPACITY, "pid")}
        said = {name: Reserved(draw.randrange(capacity[name] + 1), "file") for name in ("cpu", "memory", "pid")}
        milli = draw.randrange(1, 2 << bits)
        told = sizes_in_status(node_ledger(sized(capacity, Reservations(said, oversubscription=milli), exclusive=7)))
        amounts = [*told["capacity"].values(), *told["allocatable"].values()]
        for text in (*amounts, *(each["amount"] for each in told["reservations"])):
            assert str(Quantity.parse(text)) == text
        assert Quantity.parse(told["capacity"]["cpu oversubscription"]) == Quantity.parse(three_decimals(milli))
