"""Closed tunnels by direction, and the choice of probed peers on a node with many."""

from __future__ import annotations

from random import Random

from tarmac.agent.network.tunnels.losses import INTERVAL, MAX_PROBES, ProbedPeer, TunnelLosses, TunnelProbe
from tarmac.api.networking.tunnels import ClosedTunnel


def peers(count: int) -> list[ProbedPeer]:
    return [ProbedPeer(f"n{number}", f"192.0.2.{number}", "default/default", 4789) for number in range(count)]


class Rounds:
    """Rounds of probes; `answer` has the peers that respond, `heard` those that send packets themselves."""

    def __init__(self, count: int) -> None:
        self.losses, self.now = TunnelLosses(Random(1).randbytes), 0.0
        self.losses.follow(peers(count))
        self.answer: set[str] = {each.address for each in peers(count)}
        self.heard: set[str] = set(self.answer)

    def play(self, count: int) -> list[list[TunnelProbe]]:
        found: list[list[TunnelProbe]] = []
        for _ in range(count):
            probes = list(self.losses.next_round(self.now))
            found.append(probes)
            for address in self.heard:
                self.losses.heard((address, 4789), self.now + 1)
            for probe in probes:
                if probe.peer.address in self.answer:
                    self.losses.answer(probe.peer.route, probe.nonce)
            self.now += INTERVAL
        return found


def test_a_peer_that_is_heard_and_does_not_answer_is_closed_towards_it() -> None:
    rounds = Rounds(3)
    rounds.answer.discard("192.0.2.1")
    rounds.play(3)
    assert rounds.losses.closed(rounds.now) == [], "two probes may be lost"
    rounds.play(1)
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n1", "to", 4789)]


def test_a_peer_that_is_silent_is_closed_from_it_until_it_answers() -> None:
    rounds = Rounds(2)
    rounds.play(2)
    rounds.answer.discard("192.0.2.0")
    rounds.heard.discard("192.0.2.0")
    rounds.play(4)
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n0", "from", 4789)]
    rounds.answer.add("192.0.2.0")
    rounds.play(1)
    assert rounds.losses.closed(rounds.now) == []


def test_an_answer_counts_for_its_own_probe_once() -> None:
    losses = TunnelLosses(Random(1).randbytes)
    losses.follow(peers(2))
    first, second = losses.next_round(0.0)
    assert not losses.answer(second.peer.route, first.nonce), "the nonce went to another node"
    assert not losses.answer(("198.51.100.1", 4789), first.nonce), "the nonce of a node that is no peer"
    assert not losses.answer(first.peer.route, b"")
    assert losses.answer(first.peer.route, first.nonce)
    assert not losses.answer(first.peer.route, first.nonce)
    assert not losses.is_settled


def test_of_many_peers_a_round_probes_a_bounded_number_and_all_in_turn() -> None:
    count = 4 * MAX_PROBES
    rounds = Rounds(count)
    played = rounds.play(4)
    assert {len(probes) for probes in played} == {MAX_PROBES}
    assert {probe.peer.node for probes in played for probe in probes} == {each.node for each in peers(count)}


def test_of_many_peers_those_that_lost_a_probe_come_first() -> None:
    rounds = Rounds(1000)
    rounds.answer.discard("192.0.2.7")
    rounds.play(25)
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n7", "to", 4789)], "within one pass and three rounds"


def test_many_silent_peers_leave_room_for_the_others() -> None:
    rounds = Rounds(400)
    lost = {each.address for each in peers(400)[:300]}
    rounds.answer -= lost
    probed = {probe.peer.address for probes in rounds.play(16) for probe in probes}
    assert probed == {each.address for each in peers(400)}


def test_with_many_peers_silence_says_nothing_until_the_peer_had_a_turn() -> None:
    rounds = Rounds(200)
    rounds.answer.discard("192.0.2.3")
    rounds.heard.clear()
    rounds.play(4)
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n3", "to or from", 4789)]
    rounds.play(8)
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n3", "from", 4789)]


def test_a_peer_that_is_gone_is_judged_no_more() -> None:
    rounds = Rounds(2)
    rounds.answer.clear()
    rounds.play(4)
    rounds.losses.follow(peers(1))
    assert [each.peer for each in rounds.losses.closed(rounds.now)] == ["n0"]


def test_a_node_with_two_ways_is_judged_by_each() -> None:
    rounds = Rounds(1)
    (plain,) = peers(1)
    encrypted = plain._replace(network="default/other", port=4802)
    rounds.losses.follow([plain, encrypted])
    for _ in range(4):
        for probe in rounds.losses.next_round(rounds.now):
            rounds.losses.heard(probe.peer.route, rounds.now + 1)
            if probe.peer.port == 4802:
                rounds.losses.answer(probe.peer.route, probe.nonce)
        rounds.now += INTERVAL
    assert rounds.losses.closed(rounds.now) == [ClosedTunnel("n0", "to", 4789)]
