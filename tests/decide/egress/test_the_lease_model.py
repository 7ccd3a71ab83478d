"""Every reachable state of the lease protocol keeps its invariants, and an owner can gather all votes again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.decide.egress.leasemodel import NOBODY, Node, State, Voter, broken, canonical, start, steps

Steps = Iterator[tuple[str, State]]


class Found(Exception):
    """A state that breaks an invariant, and the path to it."""


def explore(candidates: int, ballots: int, more: Callable[[State], Steps] = lambda _: iter(())) -> set[State]:
    """Return every reachable state, up to an exchange of candidates. Raises Found."""
    first = start(candidates)
    came_from: dict[State, tuple[str, State] | None] = {first: None}
    reached = [first]
    for state in reached:  # the loop extends the list
        for name, after in ((name, canonical(after)) for name, after in (*steps(state, ballots), *more(state))):
            if after not in came_from:
                came_from[after] = name, state
                reached.append(after)
                if what := broken(after):
                    raise Found(what, _way(came_from, after))
    return set(reached)


def _way(came_from: dict[State, tuple[str, State] | None], state: State) -> list[str]:
    way: list[str] = []
    while before := came_from[state]:
        way.append(before[0])
        state = before[1]
    return way[::-1]


@pytest.mark.parametrize(
    ("candidates", "ballots", "states"),
    [
        pytest.param(2, 2, 224_209, marks=pytest.mark.timeout(240)),
        pytest.param(3, 1, 11_517),
        pytest.param(3, 2, 2_319_022, marks=[pytest.mark.soak(minutes=20, only=True), pytest.mark.timeout(7200)]),
    ],
)
def test_no_two_kernels_carry_an_address_and_epochs_grow(candidates: int, ballots: int, states: int) -> None:
    reached = explore(candidates, ballots)
    assert len(reached) == states, "the size differs from the published one"
    assert any(state.live(number) for state in reached for number in range(candidates))
    assert max(state.elected for state in reached) == ballots
    for state in reached:
        _check_that_an_owner_gathers_all_votes(state, ballots + 1)


def _check_that_an_owner_gathers_all_votes(state: State, most: int) -> None:
    """Assert that elections end: while other nodes are quiet, every voter comes to promise to the owner."""
    owner = next((number for number, node in enumerate(state.nodes) if state.live(number) and _owns(node)), None)
    if owner is None:
        return
    highest = max(voter.epoch for voter in state.voters)
    if highest >= state.nodes[owner].ballot:
        state = _take(state, most, lambda after: after.nodes[owner].ballot == highest + 1)
    for _ in range(20):
        if all(voter.held and voter.holder == owner for voter in state.voters):
            return
        state = _take(state, most, lambda after, now=state: _is_quiet(now, after, owner))
    raise AssertionError(f"{state} never gathers all votes")


def _owns(node: Node) -> bool:
    return node.phase == "owning"


def _take(state: State, most: int, wanted: Callable[[State], bool]) -> State:
    """Return the state after the first step with the wanted effect."""
    found = next((after for _, after in steps(state, most) if wanted(after)), None)
    assert found is not None, f"nothing brings {state} further"
    return found


def _is_quiet(now: State, after: State, owner: int) -> bool:
    """Return True if a step only brings a voter closer to a promise to the owner."""
    if now.nodes != after.nodes:
        return False
    return _left(after, owner) < _left(now, owner)


def _left(state: State, owner: int) -> int:
    """Return the number of steps until all voters have promised to the owner."""
    return sum(_distance(voter, owner) for voter in state.voters)


def _distance(voter: Voter, owner: int) -> int:
    if voter.held and voter.holder == owner:
        return 0
    others = ((voter.counted | voter.kernel) & ~(1 << owner)).bit_count()
    return 1 + others + (2 + voter.relied_on(owner)) * voter.silent + (voter.held and voter.holder != NOBODY)


def speaks_too_early(state: State) -> Steps:
    """Let a restarted voter promise at once."""
    for index, voter in enumerate(state.voters):
        if voter.silent:
            yield "too early", _changed(state, index, voter._replace(silent=False))


def lapses_too_early(state: State) -> Steps:
    """Let a voter count from the request, while the holder counts from the response."""
    for index, voter in enumerate(state.voters):
        if voter.held:
            yield "too early", _changed(state, index, voter._replace(held=False))


def gives_back_while_live(state: State) -> Steps:
    """Let an owner give its promises back before its kernel is silent."""
    for number, node in enumerate(state.nodes):
        if _owns(node):
            idle = Node(asked=node.asked, released=node.released | 1 << node.ballot)
            yield "too early", state._replace(nodes=(*state.nodes[:number], idle, *state.nodes[number + 1 :]))


def forgets_epochs(state: State) -> Steps:
    """Let a voter lose its disk."""
    for index, voter in enumerate(state.voters):
        if voter.silent:
            yield "forgotten", _changed(state, index, voter._replace(epoch=0))


def _changed(state: State, index: int, voter: Voter) -> State:
    return state._replace(voters=tuple(sorted((*state.voters[:index], voter, *state.voters[index + 1 :]))))


def test_an_exchange_of_candidates_loses_no_state() -> None:
    """Compare all states of the smallest model with and without the exchange."""
    reached, queue = {start(2)}, [start(2)]
    for state in queue:  # the loop extends the list
        after = {each for _, each in steps(state, 1)} - reached
        reached |= after
        queue += after
    assert {canonical(state) for state in reached} == explore(2, 1)
    assert (len(reached), len(explore(2, 1))) == (7_438, 3_789)
    for state in reached:
        assert bool(broken(state)) == bool(broken(canonical(state)))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("mistake", [speaks_too_early, lapses_too_early, gives_back_while_live, forgets_epochs])
def test_a_planted_mistake_is_found(mistake: Callable[[State], Steps]) -> None:
    with pytest.raises(Found):
        explore(2, 2, mistake)
