"""The code of leases takes only steps that the model allows.

The real voters, candidates and holders run through a random history in virtual time. After every step of a node, and
whenever time has passed, their state is read as a state of the model. Steps of the model must lead from the state
before to the state after.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest

from tarmac.decide.egress.lease import LASTS, LEASE
from tarmac.decide.egress.lease import holder as holding
from tarmac.decide.egress.lease import voter as voting
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.joint import Joint
from tarmac.decide.egress.lease.messages import Ask, Drop, Message, Release, Renewed, Together
from tests.decide.egress.leasemodel import NOBODY, Node, State, Voter, broken, steps
from tests.decide.egress.leases import ADDRESS, SECOND, World
from tests.soak import SOAK

ALL_STEPS = {
    "ask", "count", "crash", "elected", "expire", "forget", "give up", "lapse", "promise", "raise", "release", "renew",
    "speak",
}  # fmt: skip


class Deviation(AssertionError):
    """The code took a step that the model does not allow."""


class Watched(World):
    """Three voters, two of them candidates, and the model beside them."""

    def __init__(self, seed: int, addresses: Sequence[str] = (ADDRESS,), **weather: float) -> None:
        self._asked, self._released = [0, 0], [0, 0]
        self._held: dict[str, int] = {}  # voter -> holder of its promise, or of the one before its restart
        self.model: State | None = None
        self.reached: set[str] = set()
        super().__init__(seed, 3, addresses=addresses, **weather)
        self.model = self._read(0, ordered=True)

    def send(self, sender: str, to: str, message: Message | Together) -> None:
        if sender in self.candidates and isinstance(message, Ask | Release) and message.address == ADDRESS:
            number = self.candidates.index(sender)
            # A holder with a final refusal gives back the ballot of its next request.
            self._asked[number] |= 1 << message.epoch
            self._released[number] |= (1 << message.epoch) * isinstance(message, Release)
        super().send(sender, to, message)

    def observe(self) -> None:
        """Find a path in the model from the last state to this one."""
        assert self.model is not None
        elected = max((epoch for _, _, epoch in self.owners), default=0)
        after = self._read(elected, ordered=True)
        way = _way(self.model, after)
        if way is None:
            raise Deviation(f"seed {self.seed}, {self.now:.3f} s: the model has no way from\n{self.model}\nto\n{after}")
        assert not broken(after)
        self.reached.update(way)
        self.model = after

    def _read(self, elected: int, *, ordered: bool) -> State:
        nodes = tuple(self._node(number, name) for number, name in enumerate(self.candidates))
        return State(tuple(sorted(map(self._voter, self.voters))), nodes, elected, ordered)

    def _node(self, number: int, name: str) -> Node:
        candidate = self.nodes[name].candidate
        holder = candidate._holder
        if holder is None:
            return Node(asked=self._asked[number], released=self._released[number])
        # An owner's next request has its newest ballot: the model sends it in the same step.
        self._asked[number] |= 1 << holder.ballot
        phase = "owning" if candidate.state == "owning" else "asking"
        return Node(phase, holder.epoch, holder.ballot, self._asked[number], self._released[number])

    def _voter(self, name: str) -> Voter:
        node = self.nodes[name]
        promise = node.voter._promises.get(ADDRESS) or voting._Promise()
        holder = self.candidates.index(promise.holder) if promise.holder else NOBODY
        silent = node.now < node.voter._silent_until
        if silent:
            holder = self._held.get(name, NOBODY)
        held = not silent and holder != NOBODY and node.now < promise.until
        self._held[name] = holder if held or silent else NOBODY
        return Voter(promise.epoch, holder, held, silent, *(self._bits(name, kernel=each) for each in (False, True)))

    def _bits(self, voter: str, *, kernel: bool) -> int:
        found = 0
        for number, name in enumerate(self.candidates):
            node = self.nodes[name]
            ends = (node.relies_on if kernel else node.counted()).get(voter, float("-inf"))
            found |= (node.now < ends) << number
        return found


def _way(before: State, after: State) -> list[str] | None:
    """Return the names of steps from one state to another, each of them closer; None when there are none.

    An expiry may be as far: a kernel that relied on an older promise than its holder counts is silent by an expiry of
    both, after which the holder counts the newer promise.
    """
    most = max(node.asked.bit_length() for node in after.nodes)
    dead: set[State] = set()

    def search(state: State) -> list[str] | None:
        if state == after:
            return []
        if state in dead:
            return None
        dead.add(state)
        distance = _distance(state, after)
        for name, closer in steps(state, most):
            near = _distance(closer, after) < distance + (name == "expire")
            if near and (rest := search(closer)) is not None:
                return [name, *rest]
        return None

    return search(before)


def _distance(one: State, other: State) -> int:
    """Count the differences of two states; voters are unordered."""
    voters = min(sum(map(_apart, one.voters, order)) for order in permutations(other.voters))
    return voters + sum(map(_apart, one.nodes, other.nodes)) + (one[2:] != other[2:])


def _apart(one: Voter | Node, other: Voter | Node) -> int:
    bits = ("counted", "kernel", "asked", "released")
    return sum(
        (getattr(one, name) ^ getattr(other, name)).bit_count()
        if name in bits
        else getattr(one, name) != getattr(other, name)
        for name in one._fields
    )


def live_through(world: World, dice: random.Random, troubles: int) -> None:
    """Run a history of lost, late, repeated and reordered messages, pauses, restarts and hand-overs."""
    for _ in range(troubles):
        node = world.nodes[dice.choice(sorted(world.nodes))]
        match dice.choice(["restart", "pause", "cut", "give up", "none", "none"]):
            case "restart":
                node.start()
            case "pause":
                node.frozen_until = world.now + dice.uniform(0.1, 4.0)
            case "cut":
                world.cut = {node.name}
            case "give up" if world.now >= node.frozen_until:
                node.act(node.candidacies[dice.choice(world.addresses)].give_up())
            case _:
                world.cut = set()
        world.observe()
        world.run(dice.uniform(0.1, 3.0))


def histories(number: int, *addresses: str) -> set[str]:
    """Return the steps of the model that the first address took in some histories."""
    reached: set[str] = set()
    for seed in range(number):
        dice = random.Random(f"weather {seed}")
        weather = {"loss": dice.choice([0.0, 0.1, 0.4]), "delay": 0.02, "late": dice.choice([0.0, 0.1])}
        world = Watched(seed, addresses or (ADDRESS,), **weather)
        live_through(world, dice, 25)
        reached |= world.reached
    return reached


@pytest.mark.soak(minutes=10)
@pytest.mark.timeout(0 if SOAK else 120)
def test_every_step_of_the_code_is_one_of_the_model() -> None:
    assert histories(2000 if SOAK else 30) == ALL_STEPS, "not every kind of step occurs"


@pytest.mark.soak(minutes=10)
@pytest.mark.timeout(0 if SOAK else 120)
@pytest.mark.parametrize("addresses", [(ADDRESS, SECOND), (SECOND, ADDRESS)])
def test_a_second_address_of_the_same_nodes_adds_no_step_to_those_of_the_first(addresses: tuple[str, ...]) -> None:
    """The model has one address. Voters, joint renewals and messages are shared by all addresses of a node."""
    assert histories(1000 if SOAK else 15, *addresses) == ALL_STEPS


def renews_addresses_that_are_in_no_group(patch: pytest.MonkeyPatch) -> None:
    """Let a joint renewal count for an address that joined after it was sent."""
    patch.setattr(Joint, "sent", lambda self, _address: self.granted)


def test_a_promise_that_one_address_owes_to_another_is_a_step_that_the_model_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    renews_addresses_that_are_in_no_group(monkeypatch)
    with pytest.raises(AssertionError):
        histories(60, ADDRESS, SECOND)


def lapses_too_early(patch: pytest.MonkeyPatch) -> None:
    """Let a voter promise for less time than holders count on."""
    patch.setattr(voting, "LEASE", 1.0)


def speaks_too_early(patch: pytest.MonkeyPatch) -> None:
    """Let a restarted voter promise at once."""
    begin = voting.Voter.__init__

    def early(self: voting.Voter, started: float, epochs: dict[str, int] | None = None) -> None:
        begin(self, started - LEASE, epochs)

    patch.setattr(voting.Voter, "__init__", early)


def gives_back_while_live(patch: pytest.MonkeyPatch) -> None:
    """Let an owner give its promises back while its kernel continues."""
    end = Candidate._end
    patch.setattr(Candidate, "_end", lambda self: [each for each in end(self) if not isinstance(each, Drop)])


def counts_for_too_long(patch: pytest.MonkeyPatch) -> None:
    """Let a holder count a promise for longer than the voter keeps it."""
    patch.setattr(holding, "LASTS", LASTS + 0.5)


def renews_whatever_it_is_asked_for(patch: pytest.MonkeyPatch) -> None:
    """Let a voter ignore the digest, and its silence after a restart."""
    patch.setattr(voting.Voter, "renewed", lambda _self, _sender, asked, _now: Renewed(asked.digest, asked.nonce))


@pytest.mark.parametrize(
    "mistake",
    [
        lapses_too_early,
        speaks_too_early,
        gives_back_while_live,
        counts_for_too_long,
        renews_whatever_it_is_asked_for,
    ],
)
def test_a_mistake_in_the_code_is_a_step_that_the_model_does_not_have(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        histories(60)
