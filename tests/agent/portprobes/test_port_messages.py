"""Messages about UDP ports: only the two nodes can make or read one, and findings name the closed direction."""

from __future__ import annotations

import base64
import itertools

import pytest

from tarmac.agent.portprobes.asking import MAX_PEERS, MAX_PER_LOCATION, peers_of
from tarmac.agent.portprobes.portmessages import (
    REQUEST,
    SIZE,
    PortFindings,
    PortMessage,
    PortSeals,
    answer_to,
    key_of,
)
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.api.shared import ObjectMeta

ONE, TWO, THREE = (PortSeals(bytes([number]) * 32) for number in (1, 2, 3))
NODES = (ONE.public, TWO.public, THREE.public)


def request(sender: PortSeals = ONE) -> PortMessage:
    return PortMessage(REQUEST, 4789, 4802, 1_800_000_000, b"12345678", sender.public)


def endpoint(name: str, number: int, location: str = "lhr", **fields: object) -> TunnelEndpoint:
    key = base64.b64encode(bytes([number]) * 32).decode()
    known = {"addresses": [f"192.0.2.{number}"], "ready": True, "probes": True, "public_key": key, **fields}
    return TunnelEndpoint(ObjectMeta(name), location=location, **known)  # type: ignore[arg-type]


def test_the_receiver_reads_what_the_sender_sealed() -> None:
    datagram = ONE.sealed(request(), TWO.public)
    assert TWO.opened(datagram, NODES) == request()
    answer = TWO.sealed(answer_to(request(), TWO.public), ONE.public)
    assert len(answer) == len(datagram) == SIZE, "an answer is no longer than its request"
    assert ONE.opened(answer, NODES) == answer_to(request(), TWO.public)


def test_no_third_node_can_read_repeat_or_forge_a_message() -> None:
    datagram = ONE.sealed(request(), TWO.public)
    assert THREE.opened(datagram, NODES) is None
    assert TWO.opened(datagram, (THREE.public,)) is None, "of a node that is not known"
    assert ONE.opened(datagram, NODES) is None, "its own, sent back"
    assert TWO.opened(THREE.sealed(request(), TWO.public), NODES) is None, "under another node's key"


@pytest.mark.parametrize("cut", [0, 1, SIZE - 1])
def test_a_message_of_another_length_is_ignored(cut: int) -> None:
    datagram = ONE.sealed(request(), TWO.public)
    assert TWO.opened(datagram[:cut], NODES) is None
    assert TWO.opened(datagram + b"\0", NODES) is None


def test_a_message_with_any_changed_bit_is_ignored() -> None:
    datagram = ONE.sealed(request(), TWO.public)
    for place, bit in itertools.product(range(SIZE), (1, 128)):
        changed = bytearray(datagram)
        changed[place] ^= bit
        assert TWO.opened(bytes(changed), NODES) is None, place


def test_a_published_key_that_is_none_has_no_messages() -> None:
    weak = bytes(32)
    with pytest.raises(ValueError, match="X25519"):
        ONE.sealed(request(), weak)
    assert ONE.opened(ONE.sealed(request(), TWO.public)[: SIZE - 64] + weak + bytes(32), (weak,)) is None
    assert key_of("no base64!") == b""


def test_findings_name_the_direction() -> None:
    def closed(*answers: tuple[int, int]) -> object:
        findings = PortFindings()
        for arrival, back in answers:
            findings.record(request()._replace(arrival=arrival, back=back))
        return findings.closed(4789)

    assert closed() == "to or from"
    assert closed((4789, 4802)) == "from"
    assert closed((4802, 4789)) == "to"
    assert closed((4802, 4802)) == "to or from", "the other port says nothing about this one"
    assert closed((4789, 4802), (4802, 4789)) is None


def test_peers_are_a_few_of_each_location_with_the_port_they_need() -> None:
    own = endpoint("me", 200)
    others = {
        f"{place}-{n}": endpoint(f"{place}-{n}", n + 10 * i, place)
        for i, place in enumerate(("lhr", "sea"))
        for n in range(1, 6)
    }
    found = peers_of(own, others)
    assert [each.name for each in found] == ["lhr-1", "sea-1", "lhr-2", "sea-2", "lhr-3", "sea-3"]
    assert {each.name[:3]: each.port for each in found} == {"lhr": 4789, "sea": 4802}
    assert len(found) == 2 * MAX_PER_LOCATION


def test_peers_that_cannot_answer_are_not_probed() -> None:
    own = endpoint("me", 200)
    silent = [{"ready": False}, {"probes": False}, {"public_key": ""}, {"addresses": ["2001:db8::1"]}]
    assert peers_of(own, {str(n): endpoint(str(n), n, "lhr", **each) for n, each in enumerate(silent, 1)}) == []


def test_the_number_of_peers_is_limited() -> None:
    others = {f"n{n}": endpoint(f"n{n}", n, f"place-{n}") for n in range(1, 100)}
    assert len(peers_of(endpoint("me", 200), others)) == MAX_PEERS
