"""One message renews all promises of a voter to a node, with the effect of one message for each."""

from __future__ import annotations

from tarmac.decide.egress.lease import LASTS, LEASE
from tarmac.decide.egress.lease.holder import LeaseHolder
from tarmac.decide.egress.lease.joint import Joint, Joints, digest_of
from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse, Release, Renewal, Renewed, Unlisted
from tarmac.decide.egress.lease.voter import Voter
from tests.decide.egress.leases import ADDRESS, World

OTHER = "192.0.2.8"
BOTH = digest_of(ADDRESS, 3) ^ digest_of(OTHER, 5)


def voter() -> Voter:
    """Return a voter that has promised two addresses to `a`, at second 2."""
    made = Voter(0.0)
    made.serve({ADDRESS: ("a", "b"), OTHER: ("a", "b")})
    for ask in (Ask(ADDRESS, 3, 1), Ask(OTHER, 5, 1)):
        assert isinstance(made.asked("a", ask, 2.0).message, Grant)
    return made


def test_a_renewal_of_the_set_that_was_promised_promises_all_of_it_again() -> None:
    made = voter()
    assert made.renewed("a", Renewal(BOTH, 7), 3.0) == Renewed(BOTH, 7)
    assert made.tick(4.4) == []
    assert isinstance(made.asked("b", Ask(OTHER, 6, 1), 4.4).message, Refuse)
    assert {send.to for send in made.tick(4.5)} == {"a", "b"}, "all promises lapse together"
    assert isinstance(made.asked("b", Ask(OTHER, 6, 1), 4.5).message, Grant)


def test_a_renewal_of_any_other_set_promises_nothing() -> None:
    made = voter()
    for sender, digest in (("a", BOTH ^ 1), ("a", digest_of(ADDRESS, 3)), ("b", BOTH), ("b", 0), ("stranger", 0)):
        assert made.renewed(sender, Renewal(digest, 7), 3.0) == Unlisted(digest, 7)
    assert isinstance(made.asked("b", Ask(OTHER, 6, 1), 3.5).message, Grant), "no promise was prolonged"


def test_released_superseded_and_withdrawn_promises_are_not_renewed() -> None:
    released = voter()
    released.released("a", Release(OTHER, 5), 2.1)
    assert released.renewed("a", Renewal(BOTH, 7), 2.2) == Unlisted(BOTH, 7)
    assert released.renewed("a", Renewal(digest_of(ADDRESS, 3), 8), 2.2) == Renewed(digest_of(ADDRESS, 3), 8)
    taken = voter()
    taken.asked("b", Ask(OTHER, 6, 1), 4.0)
    assert isinstance(taken.renewed("a", Renewal(BOTH, 7), 4.0), Unlisted)
    raised = voter()
    raised.asked("a", Ask(OTHER, 9, 2), 2.1)
    assert isinstance(raised.renewed("a", Renewal(BOTH, 7), 2.2), Unlisted)
    closed = voter()
    closed.serve({ADDRESS: ("a", "b"), OTHER: ("b",)})
    assert isinstance(closed.renewed("a", Renewal(BOTH, 7), 2.2), Unlisted)
    assert isinstance(closed.asked("b", Ask(OTHER, 6, 1), 3.4).message, Refuse), "given promises stay"
    assert isinstance(closed.asked("b", Ask(OTHER, 6, 2), 3.5).message, Grant)


def test_a_voter_that_has_just_started_renews_nothing() -> None:
    made = Voter(0.0, {ADDRESS: 3, OTHER: 5})
    made.serve({ADDRESS: ("a",), OTHER: ("a",)})
    assert isinstance(made.renewed("a", Renewal(BOTH, 1), LEASE - 0.1), Unlisted)
    assert isinstance(made.renewed("a", Renewal(BOTH, 1), LEASE + 9), Unlisted), "epochs are stored, holders are not"


def test_a_renewal_counts_from_when_it_was_sent_for_those_that_had_joined_by_then() -> None:
    joint = Joint()
    joint.join(ADDRESS, 3)
    asked = joint.ask(10.0)
    joint.join(OTHER, 5)  # its own request was sent earlier, and granted later
    assert joint.answered(Renewed(asked.digest, asked.nonce))
    assert (joint.sent(ADDRESS), joint.sent(OTHER)) == (10.0, float("-inf"))
    again = joint.ask(10.3)
    assert again.digest == BOTH
    assert joint.answered(Renewed(again.digest, again.nonce))
    assert (joint.sent(ADDRESS), joint.sent(OTHER)) == (10.3, 10.3)


def test_an_answer_counts_once_only_to_its_own_question_and_an_older_one_takes_nothing_back() -> None:
    joint = Joint()
    joint.join(ADDRESS, 3)
    first, second = joint.ask(10.0), joint.ask(10.3)
    assert not joint.answered(Renewed(second.digest ^ 1, second.nonce))
    second = joint.ask(10.6)
    assert joint.answered(Renewed(second.digest, second.nonce))
    assert joint.answered(Renewed(first.digest, first.nonce))
    assert joint.sent(ADDRESS) == 10.6
    assert not joint.answered(Renewed(second.digest, second.nonce)), "already answered"
    joint.ask(10.9)
    assert not joint.answered(Renewed(second.digest, 99))


def test_an_address_that_leaves_keeps_what_was_promised_and_one_that_comes_back_starts_anew() -> None:
    joints = Joints()
    holder = LeaseHolder(ADDRESS, 3, ["v"], joints)
    (ask,) = holder.ask(10.0)
    assert isinstance(ask.message, Ask)
    holder.granted("v", Grant(ADDRESS, 3, ask.message.nonce))
    asked = joints.of("v").ask(10.3)
    joints.of("v").answered(Renewed(asked.digest, asked.nonce))
    assert holder.until == 10.3 + LASTS
    late = joints.of("v").ask(10.6)
    holder.ask_again("v", 8, 10.7)  # with a higher ballot, not yet promised
    joints.of("v").answered(Renewed(late.digest, late.nonce))
    assert (holder.until, joints.of("v").members) == (10.3 + LASTS, {})
    holder.end()
    assert holder.until == 10.3 + LASTS


def test_a_round_that_is_not_answered_is_followed_by_one_that_asks_for_each() -> None:
    joints = Joints()
    joints.of("v").join(ADDRESS, 3)
    assert joints.begin_round({"v"}) == {}, "it sent its own request"
    assert list(joints.begin_round({"v"})) == ["v"]
    asked = joints.of("v").ask(1.0)
    assert joints.begin_round({"v"}) == {}, "no response"
    assert list(joints.begin_round({"v"})) == ["v"]
    asked = joints.of("v").ask(1.6)
    joints.of("v").answered(Renewed(asked.digest, asked.nonce))
    assert list(joints.begin_round({"v"})) == ["v"]
    assert joints.begin_round(()) == {}, "without joint renewals each address is asked for"


def test_an_owner_that_nothing_happens_to_asks_for_nothing_by_itself() -> None:
    world = World(1, 4)
    world.run(10)
    assert world.owner is not None
    world.said.clear()
    world.run(30)
    assert world.said["Renewed"] >= world.said["Renewal"] > 0, "some messages arrive twice"
    assert (world.said["Ask"], world.said["Unlisted"], world.said["Vacant"]) == (0, 0, 0)


def test_a_voter_that_has_started_anew_is_asked_for_each_and_then_for_all_again() -> None:
    world = World(2, 4)
    world.run(10)
    owner = world.owner
    voter = next(each for each in world.nodes.values() if each.name != owner)
    voter.start()
    world.run(10)
    assert world.owner == owner
    world.said.clear()
    world.run(10)
    assert (world.said["Ask"], world.said["Unlisted"]) == (0, 0)
