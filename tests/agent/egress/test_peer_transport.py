"""A datagram is accepted once, and from its authenticated sender only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tarmac.agent.egress.leases.addressconfig import PeerIdentity, read_key, write_key
from tarmac.agent.egress.leases.transport import MAX_DATAGRAM, PeerTransport
from tarmac.base.randomness import Randomness
from tarmac.decide.egress.lease.messages import (
    Announced,
    Ask,
    Follow,
    Grant,
    Refuse,
    Release,
    Renewal,
    Renewed,
    Together,
    Unlisted,
    Vacant,
    Word,
)
from tests.attacking import TWICE

A, B, C = "198.18.0.1", "198.18.0.2", "198.18.0.3"
ASK = Ask("192.0.2.5", 7, 1)
EVERY: list[Word | Together] = [
    ASK,
    Grant("192.0.2.5", 7, 1),
    Refuse("fd00::5", 8, 2),
    Release("192.0.2.5", 7),
    Vacant("192.0.2.5", 7),
    Follow("192.0.2.5", 0),
    Announced("192.0.2.5", 9),
    *(kind((1 << 62) - 1, 9) for kind in (Renewal, Renewed, Unlisted)),
]


class Node:
    """A node that accepts every peer but `deaf_to`."""

    def __init__(self, address: str, seed: int) -> None:
        self.address, self._dice = address, Randomness(seed)
        self.private = self._dice.randbytes(32)
        self.deaf_to: set[PeerIdentity] = set()
        self.begin()

    @property
    def identity(self) -> PeerIdentity:
        return PeerIdentity(self.address, PeerTransport(self.private, bytes(32), lambda _: True).key)

    def begin(self) -> None:
        """Restart the transport with the same key."""
        self.transport = PeerTransport(self.private, self._dice.randbytes(32), lambda each: each not in self.deaf_to)

    def hears(self, datagrams: list[bytes], sender: Node, *, answered: bool = True) -> list[Word | Together]:
        """Deliver datagrams, and responses in both directions; return the accepted messages."""
        found: list[Word | Together] = []
        for datagram in datagrams:
            heard = self.transport.receive(datagram, sender.address)
            if heard is None:
                continue
            found += heard.messages
            if answered and heard.answer:
                back = [each for own in heard.answer if (each := sender.transport.receive(own, self.address))]
                found += self.hears([again for each in back for again in each.answer], sender)
        return found


@pytest.fixture
def nodes() -> tuple[Node, Node]:
    return Node(A, 1), Node(B, 2)


def test_every_word_arrives_also_the_first(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    assert other.hears(one.transport.datagrams_for(other.identity, EVERY), one) == EVERY
    assert one.hears(other.transport.datagrams_for(one.identity, [ASK]), other) == [ASK]


def test_a_datagram_is_small_enough_to_travel_whole(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    words: list[Word | Together] = [
        Ask(f"fd00:1234:5678:9abc:def0:1234:5678:{n:x}", 1 << 40, 1 << 40) for n in range(100)
    ]
    datagrams = one.transport.datagrams_for(other.identity, words)
    assert max(map(len, datagrams)) <= MAX_DATAGRAM
    assert len(datagrams) > 1
    other.hears(one.transport.datagrams_for(other.identity, []), one)
    assert other.hears(one.transport.datagrams_for(other.identity, words), one) == words


def test_nothing_is_heard_twice_nor_in_a_later_life(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    other.hears(one.transport.datagrams_for(other.identity, []), one)
    recorded = one.transport.datagrams_for(other.identity, [ASK])
    assert other.hears(recorded, one) == [ASK]
    assert other.hears(recorded, one) == []
    assert other.transport.dropped["replayed"] == 1
    one.begin()
    assert other.hears(one.transport.datagrams_for(other.identity, [Release("192.0.2.5", 7)]), one) == [
        Release("192.0.2.5", 7)
    ]
    assert other.hears(recorded, one, answered=False) == [], "the sender has a new session"
    other.begin()
    assert other.hears(recorded, one, answered=False) == [], "and so has the receiver"


def test_changed_forged_and_reflected_datagrams_are_dropped(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    other.hears(one.transport.datagrams_for(other.identity, []), one)
    (sent,) = one.transport.datagrams_for(other.identity, [ASK])
    for place in (4, 40, 60, len(sent) - 40, len(sent) - 1):
        changed = bytearray(sent)
        changed[place] ^= 1
        assert other.hears([bytes(changed)], one) == []
    assert one.hears([sent], other) == [], "its own datagram is reflected"
    other.hears((third := Node(C, 3)).transport.datagrams_for(other.identity, []), third)
    heard = other.transport.receive(third.transport.datagrams_for(other.identity, [ASK])[0], A)
    assert heard is not None, "the receiver may respond, but to the real sender"
    assert heard.sender != one.identity
    assert other.hears([b"", b"TMX1", b"TMX2" + bytes(200), bytes(70), b"\xff" * 1400], one) == []


@TWICE
def test_a15_a_vote_is_changed_on_its_way(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    """The epoch of a vote is changed into one that no node asked for."""
    one, other = nodes
    other.hears(one.transport.datagrams_for(other.identity, []), one)
    (sent,) = one.transport.datagrams_for(other.identity, [ASK])
    (later,) = one.transport.datagrams_for(other.identity, [replace(ASK, epoch=99)])
    changed = sent[:68] + later[68:-32] + sent[-32:]  # head of the first, words of the second, seal of the first
    if not defended:
        monkeypatch.setattr("tarmac.agent.egress.leases.transport.hmac.compare_digest", lambda *_: True)
    assert other.hears([changed], one) == ([] if defended else [replace(ASK, epoch=99)])


@TWICE
def test_a15_a_vote_is_recorded_and_said_again(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch, defended: bool
) -> None:
    one, other = nodes
    other.hears(one.transport.datagrams_for(other.identity, []), one)
    recorded = one.transport.datagrams_for(other.identity, [ASK])
    assert other.hears(recorded, one) == [ASK]
    if not defended:
        (talk,) = other.transport._sessions.values()
        monkeypatch.setattr(talk, "count", 0)  # as if replays were not counted
    assert other.hears(recorded, one) == ([] if defended else [ASK])


def test_nobody_is_answered_who_is_not_to_be_listened_to(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    other.deaf_to.add(one.identity)
    assert other.transport.receive(one.transport.datagrams_for(other.identity, [ASK])[0], A) is None
    assert other.transport.dropped == {"unknown": 1}


def test_a_key_that_is_none_is_nobodys() -> None:
    assert read_key("") == b""
    assert read_key("bm8=") == b""
    assert read_key("%" * 44) == b""
    own = Node(A, 1)
    assert read_key(write_key(own.identity.key)) == own.identity.key
    for key in (b"", bytes(32)):
        assert own.transport.datagrams_for(PeerIdentity(B, key), [ASK]) == [], (
            "with such a key every node would compute the same secret"
        )
