"""An address has at most one live holder, whatever the network, the clocks and the nodes do; and soon one again."""

from __future__ import annotations

import pytest

from tarmac.decide.egress.lease import LEASE, majority
from tarmac.decide.egress.lease.candidate import Candidate
from tarmac.decide.egress.lease.holder import LeaseHolder
from tarmac.decide.egress.lease.messages import Ask, Drop, Grant, Own, Refuse, Release, Renew, Send, Vacant
from tarmac.decide.egress.lease.voter import Voter
from tests.decide.egress.leases import ADDRESS, World
from tests.soak import SOAK

WEATHER = [(0.0, 0.005, 0.0), (0.1, 0.05, 0.2), (0.3, 0.1, 0.0), (0.05, 0.005, 0.5)]
"""Share of lost messages, usual delay in seconds, and share of messages that come far too late."""


def trouble(world: World) -> None:
    """Disturb a node: pause it, restart it, cut it off, reconnect it, cordon it or make it give up."""
    node = world.nodes[world.dice.choice(sorted(world.nodes))]
    match world.dice.randrange(6):
        case 0:
            node.frozen_until = world.now + world.dice.uniform(0.1, 4)
        case 1:
            node.start()
        case 2:
            world.cut.add(node.name)
        case 3:
            world.cut.clear()
        case 4:
            node.act(node.candidate.give_up())
        case _:
            node.candidate.allow(world.dice.random() < 0.7)


@pytest.mark.soak(minutes=12)
@pytest.mark.timeout(0 if SOAK else 60)
def test_never_two_holders_in_any_weather() -> None:
    for seed in range(10_000 if SOAK else 80):
        live_through(seed)


def live_through(seed: int) -> None:
    """Run one random history, determined by the seed."""
    loss, delay, late = WEATHER[seed % len(WEATHER)]
    world = World(seed, nodes=1 + seed % 5, loss=loss, delay=delay, late=late)
    for _ in range(30):
        world.run(world.dice.uniform(0.05, 1.5))
        trouble(world)
    world.loss, world.delay, world.late = 0.0, 0.005, 0.0
    world.cut.clear()
    for node in world.nodes.values():
        node.frozen_until = world.now
        node.candidate.allow(True)
    world.run(8)
    assert world.owner is not None, f"once all is well somebody carries it, seed {seed}"


@pytest.mark.parametrize("seed", range(30))
def test_never_two_holders_while_voters_change_one_at_a_time(seed: int) -> None:
    world = World(seed, nodes=6, loss=0.02)
    names = sorted(world.nodes)
    for _ in range(80):
        world.cut = {world.dice.choice(names)} if world.dice.random() < 0.5 else set()
        voters = set(world.voters)
        odd = world.dice.choice(names)
        voters = voters - {odd} if odd in voters and len(voters) > 1 else voters | {odd}
        world.voters = tuple(sorted(voters))
        order = names[:]
        world.dice.shuffle(order)
        for name in order:  # the next change waits until every candidate has acknowledged this one
            world.run(world.dice.choice([0.0, 0.0, 0.05, 0.3]))
            world.nodes[name].follow(world.candidates, world.voters)
    world.cut = set()
    world.run(6)
    assert world.owner is not None


def test_the_first_in_line_takes_it_when_nobody_has_it() -> None:
    world = World(1, nodes=5)
    world.run(LEASE + 0.5)
    assert world.owner == world.candidates[0]
    assert len(world.owners) == 1


def test_a_silent_owner_is_replaced_within_the_bar() -> None:
    world = World(2, nodes=5)
    world.run(3)
    owner = world.owner
    assert owner is not None
    world.cut.add(owner)
    since = world.now
    world.run(2.5)
    (when, new, _) = world.owners[-1]
    assert new != owner
    assert when - since <= LEASE + 0.6


def test_an_owner_that_says_goodbye_is_replaced_at_once_by_the_next_in_line() -> None:
    world = World(3, nodes=5)
    world.run(3)
    owner = world.nodes[world.owner or ""]
    owner.candidate.allow(False)
    since = world.now
    owner.act(owner.candidate.give_up())
    assert not owner.live, "dropped before the release is sent"
    world.run(0.5)
    when, new, _ = world.owners[-1]
    assert new != owner.name
    assert when - since <= 0.3


def test_an_owner_that_comes_back_does_not_take_it_again() -> None:
    world = World(4, nodes=5)
    world.run(3)
    first = world.owner or ""
    world.cut.add(first)
    world.run(3)
    second = world.owner
    world.cut.clear()
    world.run(5)
    assert world.owner == second != first


def test_without_a_majority_nobody_carries_it() -> None:
    world = World(5, nodes=5)
    world.run(3)
    others = [name for name in world.nodes if name != world.owner]
    world.cut.update(others[: majority(5)])
    world.run(5)
    assert world.owner is None


def test_a_frozen_owner_goes_silent_by_itself() -> None:
    world = World(6, nodes=1)
    world.run(3)
    node = world.nodes["n0"]
    node.frozen_until = world.now + 10
    world.run(LEASE)
    assert not node.live


def test_a_foreign_holder_keeps_the_address_from_being_carried() -> None:
    world = World(7, nodes=1)
    node = world.nodes["n0"]
    node.stranger = True
    world.run(30)
    assert not world.owners
    node.stranger = False
    world.run(20)
    assert not world.owners, "the next probe comes after a minute"
    world.run(15)
    assert world.owner == "n0"


VOTER_ASK = Ask(ADDRESS, 3, 1)


def test_a_voter_promises_nothing_right_after_its_start_nor_to_strangers() -> None:
    voter = Voter(0.0)
    voter.serve({ADDRESS: ["a"]})
    assert isinstance(voter.asked("a", VOTER_ASK, LEASE - 0.01).message, Refuse)
    assert isinstance(voter.asked("stranger", VOTER_ASK, LEASE).message, Refuse)
    assert isinstance(voter.asked("a", VOTER_ASK, LEASE).message, Grant)


def test_a_request_that_its_own_release_has_overtaken_is_not_promised() -> None:
    voter = Voter(0.0)
    voter.serve({ADDRESS: ["a", "b"]})
    voter.asked("a", VOTER_ASK, 2.0)
    told = voter.released("a", Release(ADDRESS, 3), 2.1)
    assert [each.to for each in told] == ["b"]
    assert isinstance(voter.asked("a", Ask(ADDRESS, 3, 2), 2.2).message, Refuse)
    assert isinstance(voter.asked("b", Ask(ADDRESS, 4, 1), 2.2).message, Grant)
    assert isinstance(voter.asked("b", Ask(ADDRESS, 4, 2), 2.2).message, Grant)
    assert voter.released("a", Release(ADDRESS, 3), 2.3) == [], "a late release affects no other promise"
    assert isinstance(voter.asked("a", Ask(ADDRESS, 9, 3), 2.4).message, Refuse)


def test_a_release_that_comes_before_its_request_is_not_followed_by_a_promise() -> None:
    voter = Voter(0.0)
    voter.serve({ADDRESS: ["a", "b"]})
    voter.asked("a", VOTER_ASK, 2.0)
    voter.released("a", Release(ADDRESS, 5), 2.1)
    assert isinstance(voter.asked("a", Ask(ADDRESS, 5, 2), 2.2).message, Refuse)


def test_a_promise_counts_from_when_it_was_asked_for_however_late_it_comes() -> None:
    holder = LeaseHolder(ADDRESS, 1, ["a", "b", "c"])
    holder.ask(10.0)
    holder.ask(10.4)
    holder.granted("a", Grant(ADDRESS, 1, 1))
    holder.granted("b", Grant(ADDRESS, 1, 1))
    assert 11.4 < holder.until <= 10.0 + LEASE
    holder.granted("a", Grant(ADDRESS, 2, 2))
    holder.granted("stranger", Grant(ADDRESS, 1, 2))
    holder.granted("c", Grant(ADDRESS, 1, 99))
    assert holder.until <= 10.0 + LEASE


def elected() -> Candidate:
    """Return the owner by the votes of a and b at 10, before the vote of c."""
    candidate = Candidate("a", ADDRESS, ["a", "b"], ["a", "b", "c"], epoch=4)
    candidate.vacant("b", Vacant(ADDRESS, 4), 10.0)
    candidate.granted("a", Grant(ADDRESS, 5, 1), 10.0)
    (own,) = candidate.granted("b", Grant(ADDRESS, 5, 1), 10.1)
    assert isinstance(own, Own)
    assert own.epoch == 5
    return candidate


def test_votes_that_no_longer_count_are_cut_off_before_a_change_of_voters_is_acknowledged() -> None:
    candidate = elected()
    candidate.tick(10.4)
    candidate.granted("a", Grant(ADDRESS, 5, 2), 10.4)
    (longer,) = candidate.granted("c", Grant(ADDRESS, 5, 2), 10.5)
    (shorter,) = candidate.change(["a", "b"], ["a", "b", "d"], 10.5)
    assert isinstance(longer, Renew)
    assert isinstance(shorter, Renew)
    assert shorter.until <= 10.0 + LEASE < longer.until
    assert candidate.change(["a"], ["d"], 10.6)[0] == Drop(ADDRESS)


def test_an_owner_drops_its_address_before_it_releases_the_votes() -> None:
    first, *rest = elected().give_up()
    assert first == Drop(ADDRESS)
    assert rest == [Send(each, Release(ADDRESS, 5)) for each in ("a", "b", "c")]


def test_an_agent_that_started_anew_and_fails_to_be_elected_is_silent_before_it_gives_promises_back() -> None:
    candidate = Candidate("a", ADDRESS, ["a"], ["a", "b", "c"], epoch=4)
    candidate.vacant("b", Vacant(ADDRESS, 4), 10.0)
    assert candidate.tick(11.0)[0] == Drop(ADDRESS)


@pytest.mark.parametrize("how", ["its owner says goodbye", "its owner is no candidate any more"])
def test_the_next_candidate_campaigns_at_once_when_the_owner_leaves(how: str) -> None:
    second = Candidate("b", ADDRESS, ["a", "b"], ["a", "b", "c"], epoch=1)
    assert second.vacant("c", Vacant(ADDRESS, 1), 0.0) == [], "a voter's message came first"
    asked = second.given_up("a", 0.01) if how.endswith("goodbye") else second.change(["b"], ["a", "b", "c"], 0.01)
    assert [(each.to, each.message.epoch) for each in asked if isinstance(each, Send)] == [("a", 2), ("b", 2), ("c", 2)]
    assert second.given_up("a", 0.02) == [], "asked once"


def test_a_voter_that_promised_to_a_candidate_that_lost_promises_to_the_owner_again() -> None:
    """The voter knows a higher epoch than the owner's: the owner asks with a higher one still."""
    world = World(8, nodes=4)
    world.run(3)
    owner, loser = world.nodes[world.owner or ""], world.nodes[world.candidates[1]]
    world.cut.update([owner.name])
    world.run(0.2)  # shorter than a lease
    for voter in (loser, world.nodes["n3"]):
        voter.voter.asked(loser.name, Ask(ADDRESS, owner.candidate.epoch + 3, 1), loser.now + LEASE)
        voter.voter.released(loser.name, Release(ADDRESS, owner.candidate.epoch + 3), loser.now)
    world.cut.clear()
    world.run(20)
    assert [each for _, each, _ in world.owners] == [owner.name], "a single election"
    assert len(set(world.epochs(ADDRESS))) == 1, "each voter promised to the owner"


def test_elections_end_when_a_voter_was_away_for_longer_than_a_lease() -> None:
    world = World(9, nodes=4)
    world.run(3)
    owner, first = world.owner, len(world.owners)
    for _ in range(5):
        away = next(name for name in world.candidates if name != owner)
        world.cut = {away}
        world.run(3)
        world.cut = set()
        world.run(2)
    before = max(world.epochs(ADDRESS))
    world.run(10)
    assert (world.owner, len(world.owners)) == (owner, first)
    assert set(world.epochs(ADDRESS)) == {before}, "only the owner still asks"


def test_an_owner_whose_clock_stood_still_is_silent_when_its_first_request_is_refused() -> None:
    """A paused virtual machine: by its own clock and its kernel's, the lease continues."""
    candidate = elected()
    (ask, *_) = candidate.tick(10.3)
    assert isinstance(ask, Send)
    assert isinstance(ask.message, Ask)
    assert candidate.refused("c", Refuse(ADDRESS, 6, ask.message.nonce), 10.31) == [], "c had not promised"
    assert candidate.refused("b", Refuse(ADDRESS, 6, ask.message.nonce), 10.31)[0] == Drop(ADDRESS)


def test_a_message_from_before_a_pause_does_not_hide_the_refusals_after_it() -> None:
    """Datagrams wait in the socket of a paused machine: old messages of voters that the address was free."""
    candidate = elected()
    first, second = (
        send
        for voter in "bc"
        for send in candidate.vacant(voter, Vacant(ADDRESS, 5), 10.3)
        if isinstance(send, Send) and isinstance(send.message, Ask)
    )
    assert isinstance(first.message, Ask)
    assert isinstance(second.message, Ask)
    assert first.message.epoch == 5, "b promised with this ballot"
    assert second.message.epoch == 6, "c did not"
    assert candidate.refused("b", Refuse(ADDRESS, 6, first.message.nonce), 10.31)[0] == Drop(ADDRESS)


def test_a_voter_that_has_just_started_takes_no_promise_back_by_refusing() -> None:
    candidate = elected()
    (ask, *_) = candidate.tick(10.3)
    assert isinstance(ask, Send)
    assert isinstance(ask.message, Ask)
    for voter in "bc":
        assert candidate.refused(voter, Refuse(ADDRESS, 4, ask.message.nonce), 10.31) == []
    assert candidate.state == "owning"


def test_a_voter_that_claims_an_absurd_number_does_not_move_the_owners_ballot() -> None:
    """Otherwise a stolen node would push every voter beyond the largest epoch of messages."""
    holder = LeaseHolder(ADDRESS, 5, ["a", "b", "c"])
    holder.ask(10.0)
    holder.granted("b", Grant(ADDRESS, 5, 1))
    holder.refused("c", Refuse(ADDRESS, 2**62, 1))
    assert holder.ask_again("c", 2**62, 10.1) == []
    assert holder.ballot == 5


def test_a_voter_that_claims_to_be_free_in_a_loop_is_not_asked_in_a_loop() -> None:
    holder = LeaseHolder(ADDRESS, 5, ["a", "b", "c"])
    holder.ask(10.0)
    assert sum(len(holder.ask_again("c", 5, 10.1)) for _ in range(1000)) < 100
