"""The selection of processors against a slow model of the same rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.packing import take
from tarmac.decide.cpus.topology import CpuPosition, Topology


def plain(machine: Topology, free: set[int], count: int) -> set[int]:
    """Select processors; every step counts everything anew."""
    free, taken = set(free), set[int]()
    node = {cpu: place.node for cpu, place in machine.places.items()}
    socket = {cpu: place.socket for cpu, place in machine.places.items()}
    core = {cpu: place.core for cpu, place in machine.places.items()}
    outer, inner = (node, socket) if len(set(socket.values())) >= len(set(node.values())) else (socket, node)

    def order(kind: dict[int, int], within: set[int]) -> list[int]:
        ids = {kind[cpu] for cpu in within}
        return sorted(ids, key=lambda one: (sum(kind[cpu] == one for cpu in within), one))

    def part(kind: dict[int, int], one: int, within: set[int]) -> set[int]:
        return {cpu for cpu in within if kind[cpu] == one}

    def inner_parts() -> list[set[int]]:
        return [
            part(inner, two, part(outer, one, free))
            for one in order(outer, free)
            for two in order(inner, part(outer, one, free))
        ]

    def whole(kind: dict[int, int], ids: list[int]) -> None:
        for one in ids:
            everything = part(kind, one, set(machine.places))
            if everything <= free and len(everything) <= count - len(taken):
                taken.update(everything)
                free.difference_update(everything)

    whole(outer, order(outer, free))
    whole(inner, [inner[min(each)] for each in inner_parts()])
    whole(core, [one for each in inner_parts() for one in order(core, each)])
    for one in [one for each in inner_parts() for one in order(core, each)]:
        for cpu in sorted(part(core, one, free)):
            if len(taken) < count:
                taken.add(cpu)
                free.discard(cpu)
    return taken


def machine(nodes: int, sockets: int, cores: int, threads: int) -> Topology:
    """Draw a regular machine: nodes within sockets, or sockets within nodes; siblings are far apart."""
    places: dict[int, CpuPosition] = {}
    groups = max(nodes, sockets)
    for number in range(groups * cores):
        group = number // cores
        for thread in range(threads):
            place = CpuPosition(group * nodes // groups, group * sockets // groups, number)
            places[number + thread * groups * cores] = place
    return Topology(places)


MACHINES = [
    machine(nodes, sockets, cores, threads)
    for nodes, sockets in ((1, 1), (2, 2), (4, 2), (2, 4), (1, 2), (2, 1), (4, 4))
    for cores in (1, 2, 4)
    for threads in (1, 2, 4)
]


@given(st.sampled_from(MACHINES), st.data())
def test_the_same_choice(made: Topology, data: st.DataObject) -> None:
    free = data.draw(st.sets(st.sampled_from(sorted(made.places))))
    count = data.draw(st.integers(0, len(free)))
    assert take(made, CPUSet(free), count) == CPUSet(plain(made, free, count))


@pytest.mark.parametrize("seed", range(20))
def test_pods_that_come_and_go_never_share_and_never_have_reserved_ones(seed: int) -> None:
    dice = random.Random(seed)
    made = dice.choice(MACHINES)
    reserved = take(made, made.cpus, dice.randint(1, len(made.cpus)))
    free, held = made.cpus - reserved, list[CPUSet]()
    for _ in range(200):
        if free and dice.random() < 0.6:
            count = dice.randint(1, len(free))
            held.append(take(made, free, count))
            assert len(held[-1]) == count
            assert held[-1] <= free
            assert set(held[-1]) == plain(made, set(free), count)
            free = free - held[-1]
        elif held:
            free = free | held.pop(dice.randrange(len(held)))
        everything = [cpu for each in (reserved, free, *held) for cpu in each]
        assert sorted(everything) == list(made.cpus)
