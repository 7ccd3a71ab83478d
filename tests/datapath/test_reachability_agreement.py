"""Computed reachability agrees with real packets, for random clusters in network namespaces.

One town and 60 pairs; in a soak more than a thousand pairs in 18 towns.
"""

from __future__ import annotations

from random import Random

import pytest

from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.paths import PathWalk
from tarmac.decide.reach.world import ReachWorld
from tests.datapath.worlds import RealWorld
from tests.decide.reach.test_datapaths_agree import PORTS, random_town
from tests.decide.reach.worlds import NODES
from tests.soak import SOAK

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=1), pytest.mark.timeout(180)]

PAIRS = 60
TRIED = 8
"""The town that is always tested, with reachable and unreachable pairs."""
TOWNS = range(18) if SOAK else [TRIED]


def sandbox(member: NetworkPod) -> str:
    return f"{member.namespace}-{member.name}"


@pytest.mark.parametrize("seed", TOWNS)
async def test_the_answer_is_what_packets_do(real: RealWorld, seed: int) -> None:
    chance = Random(seed)
    town = random_town(chance)
    world = ReachWorld(town.snapshot())
    members = list(world.members.values())
    numbers = {name: number for number, name in enumerate(NODES, 1)}
    for name, number in numbers.items():
        await real.node(number).apply(town.compiled(name))
    for member in members:
        await real.pod(numbers[member.node], sandbox(member), member.interfaces)
        for port in PORTS:
            await real.serve(sandbox(member), port)
    targets = [each.partition("/")[0] for member in members for own in member.interfaces for each in own.addresses]
    targets += [f"10.96.0.{number}" for number in range(1, 4)]
    answers = dict[bool, int]()
    for _ in range(PAIRS):
        sender, target = chance.choice(members), chance.choice(targets)
        port, protocol = chance.choice(PORTS), chance.choice(("TCP", "TCP", "UDP"))
        paths = list(PathWalk(world, lambda _: True, sender, protocol).to(target, port))
        expected = {path.answer == "Yes" and path.lines[-1].rule != "outside" for path in paths}
        if len(expected) > 1:
            continue  # the Service's backends differ in the result, and the choice is random
        (inside,) = expected
        tried = await real.reaches(sandbox(sender), target, port, protocol, hope=inside)
        assert (tried is not None) == inside, f"seed {seed}: {sender.name} to {target}:{port}/{protocol}: {paths}"
        answers[inside] = answers.get(inside, 0) + 1
    assert len(answers) == 2 or seed != TRIED, "all pairs of the town have the same result"
