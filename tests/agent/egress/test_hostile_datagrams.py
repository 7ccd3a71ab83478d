"""Datagrams of leases that an attacker forges, changes, replays or fills with nonsense: none is believed.

An attacker on the wire has no key of a node. A stolen node has its own, so its datagrams are authentic; they may say
anything, and must neither stop the receiver nor speak for a peer.
"""

from __future__ import annotations

import hmac
from typing import Any

import msgspec
import pytest

from tarmac.agent.egress.leases import transport as module
from tarmac.agent.egress.leases.addressconfig import PeerIdentity
from tarmac.agent.egress.leases.transport import PeerTransport
from tarmac.agent.ingress.leases import PURPOSE
from tarmac.decide.egress.lease.messages import Ask, Release
from tests.agent.egress.test_peer_transport import ASK, EVERY, A, B, C, Node
from tests.attacking import TWICE

RELEASE = Release("192.0.2.5", 7)
HEAD = 68  # length of the header
SEAL = 32


@pytest.fixture
def nodes() -> tuple[Node, Node]:
    """Two nodes that have accepted each other's sessions."""
    one, other = Node(A, 1), Node(B, 2)
    assert other.hears(one.transport.datagrams_for(other.identity, [ASK]), one) == [ASK]
    assert one.hears(other.transport.datagrams_for(one.identity, [ASK]), other) == [ASK]
    return one, other


def believed(receiver: Node, datagrams: list[bytes], address: str = A) -> int:
    """Count the datagrams whose words are accepted."""
    heard = [receiver.transport.receive(each, address) for each in datagrams]
    return sum(bool(each is not None and each.messages) for each in heard)


def test_a_datagram_with_any_bit_changed_is_dropped(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    (sent,) = one.transport.datagrams_for(other.identity, EVERY)
    number = int.from_bytes(sent)
    changed = [(number ^ (1 << bit)).to_bytes(len(sent)) for bit in range(8 * len(sent))]
    assert len(changed) > 1000
    assert believed(other, changed) == 0
    assert believed(other, [sent]) == 1, "the attempts did not use up its sequence number"


def test_a_datagram_cut_or_lengthened_anywhere_is_dropped(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    (sent,) = one.transport.datagrams_for(other.identity, EVERY)
    cut = [sent[:length] for length in range(len(sent))] + [sent[start:] for start in range(1, len(sent))]
    longer = [sent + bytes(extra) for extra in range(1, 1400)]
    assert believed(other, cut + longer) == 0
    assert believed(other, [sent]) == 1


def test_a_datagram_for_a_different_receiver_or_from_a_different_address_is_dropped(nodes: tuple[Node, Node]) -> None:
    """Nodes of a different cluster have different keys, so their datagrams are those for a different receiver."""
    one, other = nodes
    third = Node(C, 3)
    third.hears(one.transport.datagrams_for(third.identity, [ASK]), one)
    assert believed(other, one.transport.datagrams_for(third.identity, [RELEASE])) == 0
    (sent,) = one.transport.datagrams_for(other.identity, [RELEASE])
    assert [believed(other, [sent], address) for address in (B, C, "::1", "")] == [0, 0, 0, 0]
    assert believed(one, [sent], B) == 0, "reflected to its sender"


def test_releases_and_votes_of_a_whole_life_are_believed_once(nodes: tuple[Node, Node]) -> None:
    """Recorded in one session, replayed in it, after a restart of the sender, of the receiver, and of both."""
    one, other = nodes
    recorded = [each for _ in range(100) for each in one.transport.datagrams_for(other.identity, [RELEASE, ASK])]
    assert believed(other, recorded) == len(recorded)
    assert believed(other, recorded + recorded[::-1]) == 0
    one.begin()
    assert other.hears(one.transport.datagrams_for(other.identity, [ASK]), one) == [ASK]
    assert believed(other, recorded) == 0
    other.begin()
    assert believed(other, recorded) == 0
    one.begin()
    assert believed(other, recorded) == 0


def test_a_flood_of_replays_does_not_keep_a_restarted_node_out(nodes: tuple[Node, Node]) -> None:
    """Each replay of an earlier session carries an old challenge, which must not spoil the exchange of new ones."""
    one, other = nodes
    recorded = [each for _ in range(50) for each in one.transport.datagrams_for(other.identity, [RELEASE])]
    believed(other, recorded)
    one.begin()
    other.begin()
    assert believed(other, recorded) == 0
    assert other.hears(one.transport.datagrams_for(other.identity, [ASK]), one) == [ASK]
    assert believed(other, recorded) == 0
    assert one.hears(other.transport.datagrams_for(one.identity, [ASK]), other) == [ASK]


def authentic(one: Node, other: Node, body: bytes) -> bytes:
    """Return a datagram of a stolen node: sealed with its own key, and with any bytes as words."""
    (sent,) = one.transport.datagrams_for(other.identity, [])
    content = sent[:HEAD] + body
    (talk,) = one.transport._sessions.values()
    return content + module._sealed(talk.seal, other.identity.key, content)


def rows(*row: Any) -> bytes:
    return msgspec.msgpack.encode([row])


NONSENSE: dict[str, bytes] = {
    "an array of 4 billion rows": b"\xdd\xff\xff\xff\xff",
    "a row of 4 billion fields": b"\x91\xdd\xff\xff\xff\xff",
    "an address of 4 gigabytes": b"\x91\x94\x00\xdb\xff\xff\xff\xff",
    "an address that is no UTF-8": b"\x91\x94\x00\xa2\xff\xff\x00\x00",
    "an address of a lone surrogate": b"\x91\x94\x00\xa3\xed\xa0\x80\x00\x00",
    "nested arrays": b"\x91" * 1200,
    "a map": b"\x80",
    "no byte": b"",
    "an unused code": b"\xc1",
    "an unknown kind": rows(99, "192.0.2.5", 1, 1),
    "a negative kind": rows(-1, "192.0.2.5", 1, 1),
    "an epoch of 2^64 - 1": rows(0, "192.0.2.5", (1 << 64) - 1, 1),
    "an epoch of 2^62": rows(0, "192.0.2.5", 1 << 62, 1),
    "a negative epoch": rows(0, "192.0.2.5", -1, 1),
    "a nonce of 2^62": rows(0, "192.0.2.5", 1, 1 << 62),
    "an epoch that is a text": rows(0, "192.0.2.5", "1", 1),
    "a long address": rows(0, "1" * 40, 1, 1),
    "five fields": rows(0, "192.0.2.5", 1, 1, 1),
}


@pytest.mark.parametrize("body", NONSENSE.values(), ids=list(NONSENSE))
def test_nonsense_of_a_stolen_node_is_dropped_and_the_receiver_goes_on(nodes: tuple[Node, Node], body: bytes) -> None:
    """An exception here would end the step of the lease thread: the receiver would neither vote nor renew."""
    one, other = nodes
    before = other.transport.dropped["malformed"]
    assert other.transport.receive(authentic(one, other, body), A) is None
    assert other.transport.dropped["malformed"] == before + 1
    assert other.hears(one.transport.datagrams_for(other.identity, [ASK]), one) == [ASK]


def test_a_stolen_node_cannot_seal_for_a_peer(nodes: tuple[Node, Node]) -> None:
    """It names its peer's key and address, and seals with every secret that it can compute."""
    one, other = nodes
    thief = Node(C, 3)
    other.hears(thief.transport.datagrams_for(other.identity, [ASK]), thief)
    thief.transport.datagrams_for(one.identity, [ASK])
    secrets = [talk.seal for talk in thief.transport._sessions.values()]
    (sent,) = one.transport.datagrams_for(other.identity, [Ask("192.0.2.5", 8, 1)])
    forged = [sent[:-SEAL] + hmac.digest(each, other.identity.key + sent[:-SEAL], "sha256") for each in secrets]
    assert len(forged) == 2
    assert believed(other, forged) == 0


def test_a_node_that_publishes_the_key_of_a_peer_cannot_use_it() -> None:
    """The key names a secret that only its owner can compute: the claim takes messages from the claimant alone."""
    one, other, thief = Node(A, 1), Node(B, 2), Node(C, 3)
    claimed = PeerIdentity(C, one.identity.key)
    (said,) = other.transport.datagrams_for(claimed, [ASK])
    assert thief.transport.receive(said, B) is None
    copied = PeerTransport(thief.private, bytes(32), lambda _: True)
    copied.key = one.identity.key
    assert believed(other, copied.datagrams_for(other.identity, [RELEASE]), C) == 0
    assert other.transport.dropped["forged"] == 1


@TWICE
def test_datagrams_about_source_ips_at_the_port_of_public_addresses(defended: bool) -> None:
    """An attacker on the wire delivers datagrams and challenges to the other port; a node has one key for both."""
    one, other, believed = Node(A, 1), Node(B, 2), list[object]()
    victim = PeerTransport(other.private, bytes(32), lambda _: True, PURPOSE if defended else b"")
    for number in range(40):
        for sent in one.transport.datagrams_for(other.identity, [Ask("192.0.2.5", number, number)]):
            challenges = getattr(victim.receive(sent, A), "answer", ())
            for answered in [one.transport.receive(each, B) for each in challenges]:
                again = [victim.receive(each, A) for each in getattr(answered, "answer", ())]
                believed += [word for each in again if each is not None for word in each.messages]
    assert (not believed) is defended
    assert (victim.dropped["forged"] == 40) is defended
