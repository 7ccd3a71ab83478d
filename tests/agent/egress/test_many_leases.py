"""Leases of many addresses with the same nodes are renewed together, and are as safe as single ones."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import pytest

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity
from tarmac.agent.egress.leases.checkpoint import LeaseState
from tarmac.agent.egress.leases.participant import TICK, LeaseParticipant
from tarmac.base.clock import ManualClock
from tarmac.decide.egress.lease.messages import Together, Word
from tests.soak import SOAK

NAMES = "abcd"
IDENTITIES = {name: PeerIdentity(f"198.18.0.{number}", name.encode() * 32) for number, name in enumerate(NAMES, 1)}
ADDRESSES = [f"192.0.2.{number}" for number in range(1, 9)]


def config_of(address: str) -> AddressConfig:
    """Return the configuration of an address: two candidates, and voters that depend on whether its number is odd."""
    number = int(address.rpartition(".")[2])
    line = NAMES[number % 3 :][:2]
    voters = "abc" if number % 2 else "bcd"
    return AddressConfig(
        address, {n: IDENTITIES[n] for n in line}, {n: IDENTITIES[n] for n in voters}, frozenset(), True
    )


class Kernel:
    """A kernel whose addresses expire. A call with a refused address changes nothing."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self.until, self.told = clock, dict[str, float](), Counter[str]()
        self.owners: dict[str, str] = {}
        self.refused: set[str] = set()

    def follow(self, owners: Mapping[str, str]) -> None:
        self._called("follow", owners)
        self.owners |= owners

    def announce(self, addresses: Sequence[str]) -> None: ...

    def carry(self, seconds: Mapping[str, float]) -> None:
        self._called("carry", seconds)
        self.until |= {each: self._clock.monotonic() + left for each, left in seconds.items()}

    def _called(self, what: str, addresses: Iterable[str]) -> None:
        self.told[what] += 1
        if not self.refused.isdisjoint(addresses):
            raise OSError("refused")

    def drop(self, addresses: Sequence[str]) -> None:
        self._called("drop", addresses)
        for each in addresses:
            self.until.pop(each, None)

    @property
    def live(self) -> set[str]:
        return {each for each, until in self.until.items() if self._clock.monotonic() < until}


class Planet:
    """Four nodes and a network that loses and delays messages."""

    def __init__(
        self, seed: int = 0, loss: float = 0.0, delay: float = 0.0, addresses: Sequence[str] = ADDRESSES
    ) -> None:
        self._addresses = addresses
        self.clock, self.dice, self.loss, self.delay = ManualClock(), random.Random(seed), loss, delay
        self.kernels = {name: Kernel(self.clock) for name in NAMES}
        self.disks: dict[str, LeaseState] = {}
        self.paused: dict[str, float] = {}
        self.said: Counter[str] = Counter()
        self._order = count()
        self._queue: list[tuple[float, int, str, str, list[Word | Together]]] = []
        self.nodes = {name: self._started(name) for name in NAMES}

    def _started(self, name: str) -> LeaseParticipant:
        known = self.disks.get(name, LeaseState())
        node = LeaseParticipant(
            name, self.kernels[name], self.clock, known, lambda each: self._probed(name, each), _nothing
        )
        own = {each: config_of(each) for each in self._addresses}
        node.serve({each: replace(known, can_own=name in known.candidates) for each, known in own.items()})
        return node

    def _probed(self, name: str, address: str) -> None:
        self.nodes[name].probed(address, "")

    def restart(self, name: str) -> None:
        """Kill an agent and start one from its checkpoint; the kernel keeps its state."""
        self.nodes[name] = self._started(name)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.clock.advance(TICK)
            self._deliver()
            for name, node in list(self.nodes.items()):
                if self.paused.get(name, 0.0) <= self.clock.monotonic():
                    node.tick()
                    self._send(name)
            self._deliver()
            self.check()

    def check(self) -> None:
        carried = Counter(address for kernel in self.kernels.values() for address in kernel.live)
        twice = [address for address, number in carried.items() if number > 1]
        assert not twice, f"two nodes carry {twice}"

    def _send(self, name: str) -> None:
        node = self.nodes[name]
        self.disks[name] = node.state  # before the messages are sent
        outbox, node.outbox = node.outbox, []
        by_peer: dict[PeerIdentity, list[Word | Together]] = {}
        for to, word in outbox:
            self.said[type(word).__name__] += 1
            by_peer.setdefault(to, []).append(word)
        for to, words in by_peer.items():
            receiver = next(each for each, own in IDENTITIES.items() if own == to)
            if self.dice.random() >= self.loss:
                at = self.clock.monotonic() + (self.dice.expovariate(1 / self.delay) if self.delay else 0.0)
                heapq.heappush(self._queue, (at, next(self._order), name, receiver, words))

    def _deliver(self) -> None:
        while self._queue and self._queue[0][0] <= self.clock.monotonic():
            _, order, sender, to, words = heapq.heappop(self._queue)
            if (thaw := self.paused.get(to, 0.0)) > self.clock.monotonic():
                heapq.heappush(self._queue, (thaw, order, sender, to, words))
                continue
            self.nodes[to].receive(IDENTITIES[sender], words)
            self._send(to)

    @property
    def carried(self) -> set[str]:
        return {address for kernel in self.kernels.values() for address in kernel.live}


def _nothing(_: str) -> None: ...


def test_a_round_is_one_message_for_each_voter_and_the_kernel_is_told_of_all_at_once() -> None:
    planet = Planet()
    planet.run(10)
    assert planet.carried == set(ADDRESSES)
    planet.said.clear()
    for kernel in planet.kernels.values():
        kernel.told.clear()
    planet.run(30)
    assert planet.carried == set(ADDRESSES)
    assert (planet.said["Ask"], planet.said["Grant"], planet.said["Unlisted"]) == (0, 0, 0)
    rounds = 30 / 0.3
    assert 0 < planet.said["Renewal"] <= 3 * 3 * rounds, "three owners, each with at most three other voters"
    assert all(kernel.told["carry"] <= 2 * rounds for kernel in planet.kernels.values())


MANY = [f"192.0.{third}.{last}" for third in range(2, 8) for last in range(3, 250, 6)]
"""All have the candidates a and b, in this order, and the voters a, b and c."""


def test_the_addresses_of_a_lost_gateway_move_by_few_kernel_calls() -> None:
    """Each call costs milliseconds; one call for each address would take longer than a lease lasts."""
    planet = Planet(addresses=MANY)
    planet.run(10)
    assert planet.kernels["a"].live == set(MANY)
    planet.kernels["b"].told.clear()
    planet.paused["a"] = planet.clock.monotonic() + 4
    planet.run(4)
    assert planet.kernels["b"].live == set(MANY)
    assert planet.kernels["b"].told.total() < len(MANY) / 4
    planet.kernels["a"].told.clear()
    planet.run(5)
    assert set(planet.kernels["a"].owners.items()) == {(each, IDENTITIES["b"].address) for each in MANY}
    assert planet.kernels["a"].told.total() < len(MANY) / 4
    assert planet.kernels["b"].live == set(MANY)


def test_an_address_that_the_kernel_refuses_costs_the_others_nothing() -> None:
    planet = Planet(addresses=MANY)
    planet.kernels["a"].refused = {MANY[7]}
    planet.run(10)
    assert planet.kernels["a"].live == {*MANY} - {MANY[7]}
    assert planet.kernels["b"].live == {MANY[7]}


def test_only_an_address_that_the_kernel_does_not_drop_stays_until_its_lease_ends() -> None:
    planet = Planet(addresses=MANY)
    planet.run(10)
    planet.kernels["a"].refused = {MANY[7]}
    planet.nodes["a"].hand_over()
    assert planet.kernels["a"].live == {MANY[7]}
    planet.run(0.5)
    assert planet.kernels["b"].live == {*MANY} - {MANY[7]}
    planet.run(3)
    assert planet.kernels["b"].live == set(MANY)


@pytest.mark.soak(minutes=3)
def test_no_address_is_carried_twice_in_any_weather_and_all_are_carried_after_it() -> None:
    renewed = 0
    for seed in range(400 if SOAK else 12):
        planet = Planet(seed, loss=0.1, delay=0.03)
        for _ in range(40):
            what, name = planet.dice.choice(["", "", "restart", "pause", "hand over"]), planet.dice.choice(NAMES)
            if what == "restart":
                planet.restart(name)
            elif what == "pause":
                planet.paused[name] = planet.clock.monotonic() + planet.dice.uniform(0.2, 4.0)
            elif what == "hand over":
                planet.nodes[name].hand_over()
                planet.restart(name)
            planet.run(planet.dice.uniform(0.2, 3.0))
        planet.loss = 0.0
        planet.run(15)
        assert planet.carried == set(ADDRESSES), f"seed {seed}"
        renewed += planet.said["Renewed"]
    assert renewed > 1000
