"""Packets and objects that are expensive to process: any pod may send them, and all pods of the node would wait."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest

from tarmac.agent.dns.dnsmessages import (
    FORMAT_ERROR,
    MAX_RECORDS,
    SRV,
    A,
    Question,
    read_query,
    read_reply,
    write_answer,
)
from tarmac.agent.dns.domainnames import MAX_POINTERS, MalformedPacket, name_of, read_name
from tarmac.agent.dns.resolver import Resolver
from tarmac.agent.dns.view import DnsView, EndpointRecord, NetworkAddress, PortRecord, ServiceRecord, SliceRecord

NETWORK = "default/default"
WEB = name_of("web.default.svc.cluster.local")


def spent(work: Callable[[], object]) -> float:
    """Return CPU seconds; the better of two runs, since the first one also imports and allocates."""
    times: list[float] = []
    for _ in range(2):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def pointers(size: int, response: bool = False) -> bytes:
    """Build a record whose data is a chain of pointers, and as many records as fit whose names point to it."""
    question = b"\x01a\x00" + struct.pack("!HH", 1, 1)
    start = 12 + len(question) + 1 + 10
    chain = bytearray(b"\x00\x00")
    while len(chain) < min(size // 3, 16000):
        chain += struct.pack("!H", 0xC000 | (start + len(chain) - 2))
    top = struct.pack("!H", 0xC000 | (start + len(chain) - 2))
    first = b"\x00" + struct.pack("!HHIH", 16, 1, 0, len(chain)) + chain
    another = top + struct.pack("!HHIH", 16, 1, 0, 0)
    count = (size - start - len(chain)) // len(another)
    counts = (count + 1, 0, 0) if response else (0, 0, count + 1)
    return struct.pack("!HHHHHH", 7, 0x8180 if response else 0x0100, 1, *counts) + question + first + another * count


@pytest.mark.parametrize("size", [4096, 65535])
def test_a_query_of_pointers_to_pointers_is_refused_at_once(size: int) -> None:
    packet = pointers(size)
    query = read_query(packet)
    assert query is not None
    assert query.trouble == FORMAT_ERROR
    assert spent(lambda: read_query(packet)) < 0.001


def test_an_answer_of_pointers_to_pointers_is_none() -> None:
    packet = pointers(65535, response=True)
    with pytest.raises(MalformedPacket):
        read_reply(packet, 7, Question(("a",), 1))

    def read() -> None:
        with pytest.raises(MalformedPacket):
            read_reply(packet, 7, Question(("a",), 1))

    assert spent(read) < 0.01


def test_names_are_followed_a_few_times_only() -> None:
    packet = b"\x01a\x00" + b"".join(struct.pack("!H", 0xC000 | max(0, 3 + 2 * (n - 1))) for n in range(40))
    packet = packet[:3] + b"\xc0\x00" + packet[5:]
    assert read_name(packet, 3 + 2 * (MAX_POINTERS - 1))[0] == ("a",)
    with pytest.raises(MalformedPacket):
        read_name(packet, 3 + 2 * MAX_POINTERS)


def test_an_answer_with_a_compressed_question_is_none() -> None:
    """A relayed response gets the client's question, so records after a compressed one would move."""
    packet = struct.pack("!HHHHHH", 0x0161, 0x8180, 1, 0, 0, 0) + b"\xc0\x00" + struct.pack("!HH", 1, 1)
    with pytest.raises(MalformedPacket):
        read_reply(packet, 0x0161, Question(("a",), 1))


def crowded(slices: int, ports: int, endpoints: int, hostname: str = "") -> Resolver:
    view = DnsView()
    view.put_service(("default", "web"), ServiceRecord())
    own = tuple(PortRecord(f"p{number}", "tcp", number + 1) for number in range(ports))
    for number in range(slices):
        there = tuple(
            EndpointRecord(
                hostname and f"{hostname}{number}-{each}",
                NetworkAddress("", f"10.{number}.{each >> 8}.{each & 255}"),
                True,
            )
            for each in range(endpoints)
        )
        view.put_slice(("default", "web"), f"web-{number}", SliceRecord("", own, there))
    return Resolver(view)


@pytest.mark.parametrize(
    "question",
    [Question(WEB, SRV), Question(WEB, A), Question(("_p7", "_tcp", *WEB), SRV), Question(("10-0-0-1", *WEB), A)],
    ids=["every port", "every address", "one port", "one endpoint"],
)
def test_a_service_of_a_hundred_thousand_endpoints_is_answered_in_time(question: Question) -> None:
    resolver = crowded(slices=100, ports=100, endpoints=1000)
    query = read_query(struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\x01a\x00" + struct.pack("!HH", 1, 1))
    assert query is not None

    def answer() -> None:
        found = resolver.answer(question, [NETWORK])
        assert found is not None
        assert len(found.answers) <= MAX_RECORDS
        write_answer(query, found, 1232)

    assert spent(answer) < 0.05


def test_an_address_with_a_hundred_thousand_names_is_answered_in_time() -> None:
    view = DnsView()
    view.put_service(("default", "web"), ServiceRecord())
    for number in range(100):
        there = tuple(EndpointRecord(f"h{number}-{each}", NetworkAddress("", "10.9.9.9"), True) for each in range(1000))
        view.put_slice(("default", "web"), f"web-{number}", SliceRecord("", (), there))
    resolver = Resolver(view)
    question = Question(("9", "9", "9", "10", "in-addr", "arpa"), 12)
    assert spent(lambda: resolver.answer(question, [NETWORK])) < 0.05
