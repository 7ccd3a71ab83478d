"""The lease of an address as a model small enough for exhaustive exploration: states, steps and invariants.

Three nodes vote on the address and some are candidates for it. Time appears only as the fact on which the protocol
rests: a promise lapses at its voter, and a restarted voter responds again, only when neither a holder nor a kernel
relies on the promise any more. Both may stop relying on it at any time.

Nothing is ever removed from the network: a request or a release can arrive late, twice, after later ones, or never. A
paused node takes no step while other nodes do. A crash loses everything but epochs, and leaves the kernel unchanged.
Refusals and messages about vacancy only tell a node which ballots are worth trying; here it may try any new ballot.

One address suffices. A crash or a pause of a node affects all its addresses at the same time; the model allows one for
each address at any time. A message about one address changes no state of another one, as
test_addresses_are_independent shows. A joint renewal is a renewal of each address: test_the_code_and_the_model runs two
addresses on the same nodes, and finds only steps of this model. So a result for one address holds for several.

Voters have no names here, and candidates need none: two states that differ only in their numbers have the same future.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import permutations
from typing import Literal, NamedTuple

NOBODY = -1
VOTERS = 3
MAJORITY = 2


class Voter(NamedTuple):
    """`holder` has or had the promise of `epoch`; it is `held` until it lapses or is given back.

    A voter is `silent` after a restart; `holder` then had the promise that the voter has forgotten.

    `counted` and `kernel` are the candidates, as bits, with holders and kernels that rely on this voter.
    """

    epoch: int = 0
    holder: int = NOBODY
    held: bool = False
    silent: bool = False
    counted: int = 0
    kernel: int = 0

    def relied_on(self, node: int) -> bool:
        return bool((self.counted | self.kernel) >> node & 1)


class Node(NamedTuple):
    """A candidate: the epoch of its election, its current ballot, and the ballots of all messages it ever sent."""

    phase: Literal["idle", "asking", "owning"] = "idle"
    epoch: int = 0
    ballot: int = 0
    asked: int = 0  # ballots, as bits
    released: int = 0


class State(NamedTuple):
    """Unordered voters, candidates, and the highest epoch that was ever elected."""

    voters: tuple[Voter, ...]
    nodes: tuple[Node, ...]
    elected: int = 0
    ordered: bool = True  # each owner had a higher epoch than those before it

    def live(self, node: int) -> bool:
        """Return True if a node's kernel carries the address."""
        return sum(voter.kernel >> node & 1 for voter in self.voters) >= MAJORITY


def start(candidates: int) -> State:
    """Return the state without any promise."""
    return State((Voter(),) * VOTERS, (Node(),) * candidates)


def broken(state: State) -> str:
    """Return the invariant that a state breaks; empty when it keeps all of them."""
    if sum(map(state.live, range(len(state.nodes)))) > 1:
        return "two kernels carry the address"
    return "" if state.ordered else "an owner of an epoch that is not higher than an earlier one"


def steps(state: State, most: int) -> Iterator[tuple[str, State]]:
    """Yield all possible next steps, with ballots up to `most`."""
    for number, node in enumerate(state.nodes):
        yield from _lead(state, number, node, most)
    for index, voter in enumerate(state.voters):
        if index and voter == state.voters[index - 1]:
            continue  # voters have no names: the same step of an equal voter leads to the same state
        for name, changed in _vote(state.nodes, voter):
            yield name, _voting(state, index, changed)
        yield from _rely(state, index, voter)


def _lead(state: State, number: int, node: Node, most: int) -> Iterator[tuple[str, State]]:
    """Yield the steps that a candidate takes by itself."""
    untried = range(node.asked.bit_length(), most + 1)
    if node.phase == "idle":
        for ballot in untried:
            if ballot:
                yield "ask", _with(state, number, _asking(node._replace(phase="asking", epoch=ballot, ballot=ballot)))
        return
    idle = node._replace(phase="idle", epoch=0, ballot=0)
    yield "crash", _without(_with(state, number, idle), number, kernel=False)
    # The kernel must be silent before promises are given back.
    given_back = idle._replace(released=node.released | 1 << node.ballot)
    yield "give up", _without(_with(state, number, given_back), number, kernel=True)
    if node.phase == "owning":
        for ballot in untried:
            yield "raise", _with(state, number, _asking(node._replace(ballot=ballot)))


def _asking(node: Node) -> Node:
    return node._replace(asked=node.asked | 1 << node.ballot)


def _rely(state: State, index: int, voter: Voter) -> Iterator[tuple[str, State]]:
    """Yield the steps of holders: count a promise, be elected with a majority, renew, or stop counting."""
    for number, node in enumerate(state.nodes):
        bit = 1 << number
        if voter.relied_on(number):
            rest = voter._replace(counted=voter.counted & ~bit, kernel=voter.kernel & ~bit)
            yield "expire", _voting(state, index, rest)
        # A promise may still arrive after the restart of its voter.
        if node.phase == "idle" or voter.holder != number or not (voter.held or voter.silent):
            continue
        if not node.epoch <= voter.epoch <= node.ballot:
            continue
        counted = _voting(state, index, voter._replace(counted=voter.counted | bit))
        relied = sum(each.counted >> number & 1 for each in counted.voters)
        if node.phase == "owning":
            yield "renew", _carried(counted, number)
        elif relied < MAJORITY:
            yield "count", counted
        else:
            won = _with(_carried(counted, number), number, node._replace(phase="owning"))
            ordered = state.ordered and node.epoch > state.elected
            yield "elected", won._replace(elected=max(state.elected, node.epoch), ordered=ordered)


def canonical(state: State) -> State:
    """Return the representative of all states that differ only in the order of candidates."""
    nodes = tuple(sorted(state.nodes))
    orders = [each for each in _orders(len(nodes)) if tuple(state.nodes[number] for number in each) == nodes]
    if len(orders) == 1 and nodes == state.nodes:
        return state
    return min(state._replace(voters=_exchanged(state.voters, each), nodes=nodes) for each in orders)


def _exchanged(voters: tuple[Voter, ...], order: tuple[int, ...]) -> tuple[Voter, ...]:
    return tuple(sorted(_exchanged_voter(each, order) for each in voters))


@functools.cache
def _exchanged_voter(voter: Voter, order: tuple[int, ...]) -> Voter:
    counted = sum((voter.counted >> old & 1) << new for new, old in enumerate(order))
    kernel = sum((voter.kernel >> old & 1) << new for new, old in enumerate(order))
    holder = order.index(voter.holder) if voter.holder != NOBODY else NOBODY
    return voter._replace(holder=holder, counted=counted, kernel=kernel)


@functools.cache
def _orders(candidates: int) -> tuple[tuple[int, ...], ...]:
    return tuple(permutations(range(candidates)))


@functools.cache  # a few thousand arguments, each in hundreds of states
def _vote(nodes: tuple[Node, ...], voter: Voter) -> tuple[tuple[str, Voter], ...]:
    return tuple(_votes(nodes, voter))


def _votes(nodes: tuple[Node, ...], voter: Voter) -> Iterator[tuple[str, Voter]]:
    """Yield the steps that a voter takes by itself, or when a message arrives."""
    if voter.silent:
        if not voter.counted | voter.kernel:
            yield "speak", voter._replace(holder=NOBODY, silent=False)
        return
    yield "forget", voter._replace(holder=voter.holder if voter.held else NOBODY, held=False, silent=True)
    if voter.held and not voter.relied_on(voter.holder):
        yield "lapse", voter._replace(held=False)
    for number, node in enumerate(nodes):
        own = voter.holder == number
        for ballot in _ballots(node.asked):
            if (own or not voter.held) and (ballot > voter.epoch or (own and ballot == voter.epoch)):
                yield "promise", voter._replace(epoch=ballot, holder=number, held=True)
        for ballot in _ballots(node.released):
            if own and ballot >= voter.epoch:
                yield "release", voter._replace(epoch=ballot, holder=NOBODY, held=False)


def _ballots(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _carried(state: State, number: int) -> State:
    """Let the kernel of a node rely on the voters that its holder counts."""
    bit = 1 << number
    voters = (each._replace(kernel=each.kernel & ~bit | each.counted & bit) for each in state.voters)
    return state._replace(voters=tuple(sorted(voters)))


def _without(state: State, number: int, *, kernel: bool) -> State:
    """Let a holder rely on no voter, and its kernel too if `kernel` is set."""
    rest = ~(1 << number)
    voters = (
        each._replace(counted=each.counted & rest, kernel=each.kernel & rest if kernel else each.kernel)
        for each in state.voters
    )
    return state._replace(voters=tuple(sorted(voters)))


def _with(state: State, number: int, node: Node) -> State:
    nodes = (*state.nodes[:number], node, *state.nodes[number + 1 :])
    return State(state.voters, nodes, state.elected, state.ordered)


def _voting(state: State, index: int, voter: Voter) -> State:
    voters = state.voters
    return State(
        tuple(sorted((*voters[:index], voter, *voters[index + 1 :]))), state.nodes, state.elected, state.ordered
    )
