"""The selection of processors, against results of kubelet's code and against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.packing import NotEnough, take
from tarmac.decide.cpus.topology import CpuPosition, Topology
from tests.decide.cpus.machines import siblings, sub_numa


@pytest.mark.parametrize(("count", "cpus"), [(2, "0,8"), (3, "0-1,8")])
def test_reserved_processors_with_siblings(count: int, cpus: str) -> None:
    assert str(take(siblings(), siblings().cpus, count)) == cpus


@pytest.mark.parametrize(
    ("count", "cpus"),
    [(1, "1"), (2, "1,9"), (3, "1-2,9"), (5, "1-3,9-10"), (8, "4-7,12-15"), (9, "1,4-7,12-15")],
)
def test_a_machine_with_siblings(count: int, cpus: str) -> None:
    assert str(take(siblings(), siblings().cpus - CPUSet.parse("0,8"), count)) == cpus


@pytest.mark.parametrize(("count", "cpus"), [(1, "9"), (2, "2,10"), (3, "2,9-10")])
def test_a_broken_core_is_used_up_first_but_whole_cores_before_that(count: int, cpus: str) -> None:
    assert str(take(siblings(), siblings().cpus - CPUSet.parse("0-1,8"), count)) == cpus


def test_more_than_there_is() -> None:
    with pytest.raises(NotEnough) as caught:
        take(siblings(), siblings().cpus - CPUSet.parse("0,8"), 15)
    assert str(caught.value) == "not enough cpus available to satisfy request: requested=15, available=14"


def test_the_reserved_processor_of_a_machine_of_small_numa_nodes() -> None:
    assert str(take(sub_numa(), sub_numa().cpus, 1)) == "0"


@pytest.mark.parametrize(("count", "cpus"), [(2, "1-2"), (4, "4-7"), (6, "1-2,4-7"), (8, "8-15"), (9, "1,8-15")])
def test_a_machine_of_small_numa_nodes(count: int, cpus: str) -> None:
    assert str(take(sub_numa(), sub_numa().cpus - CPUSet([0]), count)) == cpus


def test_eight_processors_with_siblings_reserve_a_whole_core() -> None:
    machine = Topology({cpu: CpuPosition(0, 0, cpu % 4) for cpu in range(8)})
    assert str(take(machine, machine.cpus, 2)) == "0,4"


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Draw any machine, also an irregular one with offline processors."""
    sockets, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    cores, threads = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    places: dict[int, CpuPosition] = {}
    for thread in range(threads):
        for node in range(nodes):
            for socket in range(sockets):
                for core in range(cores):
                    lowest = (node * sockets + socket) * cores + core
                    places[lowest + thread * nodes * sockets * cores] = CpuPosition(node, socket, lowest)
    online = draw(st.sets(st.sampled_from(sorted(places)), min_size=1))
    return Topology({cpu: places[cpu] for cpu in online})


@given(machines(), st.data())
def test_exactly_as_many_as_asked_for_and_only_free_ones(machine: Topology, data: st.DataObject) -> None:
    free = CPUSet(data.draw(st.sets(st.sampled_from(sorted(machine.places)))))
    count = data.draw(st.integers(0, len(free)))
    taken = take(machine, free, count)
    assert len(taken) == count
    assert taken <= free


@given(machines(), st.data())
def test_no_core_is_broken_that_did_not_have_to_be(machine: Topology, data: st.DataObject) -> None:
    free = CPUSet(data.draw(st.sets(st.sampled_from(sorted(machine.places)), min_size=1)))
    taken = take(machine, free, data.draw(st.integers(1, len(free))))
    broken = [
        cpus
        for cpus in machine.members["core"].values()
        if cpus <= set(free) and 0 < len(cpus & set(taken)) < len(cpus)
    ]
    assert len(broken) <= 1


@given(machines(), st.data())
def test_a_wholly_free_socket_is_taken_whole_when_the_request_covers_nothing_else(
    machine: Topology, data: st.DataObject
) -> None:
    cpus = data.draw(st.sampled_from(sorted(machine.members["socket"].values(), key=sorted)))
    assert take(machine, CPUSet(cpus), len(cpus)) == CPUSet(cpus)
