"""Packets of any content are parsed or refused, and responses fit their transport."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.agent.dns.dnsmessages import (
    BAD_VERSION,
    FORMAT_ERROR,
    NOT_IMPLEMENTED,
    REFUSED,
    DnsAnswer,
    Question,
    address_record,
    read_query,
    read_reply,
    relay,
    write_answer,
    write_query,
)
from tarmac.agent.dns.domainnames import MalformedPacket, address_of, name_of, read_name, reverse_name, write_name
from tests.agent.dns.asking import ask, made, read

labels = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=63)
names = st.lists(labels, max_size=6).map(tuple).filter(lambda name: sum(len(each) + 1 for each in name) < 255)


@given(name=names)
def test_a_name_is_read_as_it_was_written(name: tuple[str, ...]) -> None:
    written = write_name(name)
    assert read_name(b"x" * 3 + written, 3) == (name, 3 + len(written))


@given(packet=st.binary(max_size=600))
def test_no_packet_is_too_strange(packet: bytes) -> None:
    query = read_query(packet)
    if query is not None:
        said = read(write_answer(query, DnsAnswer(query.trouble), 512))
        assert said.id == query.id


@given(packet=st.binary(max_size=300), valid=st.booleans())
def test_no_answer_is_too_strange(packet: bytes, valid: bool) -> None:
    start = made("example.com", "A", b"\x01\x02\x03\x04")
    try:
        read_reply(start[:12] + packet if valid else packet, 7, Question(("example", "com"), 1))
    except MalformedPacket:
        return


@given(cut=st.integers(0, 60), flip=st.integers(0, 60), value=st.integers(0, 255))
def test_nor_is_a_broken_one(cut: int, flip: int, value: int) -> None:
    packet = bytearray(made("example.com", "A", b"\x01\x02\x03\x04", b"\x05\x06\x07\x08"))
    packet[flip % len(packet)] = value
    try:
        read_reply(bytes(packet[: len(packet) - cut]), 7, Question(("example", "com"), 1))
    except MalformedPacket:
        return


@pytest.mark.parametrize(
    "packet",
    [
        b"\xc0\x00",  # a pointer to itself
        b"\x01a\xc0\x00",  # a pointer to its own beginning
        b"\xc0\x05\0\0\0\xc0\x00",  # a forward pointer
        b"\x40" + b"a" * 64,  # an undefined kind of label
        b"\x3f" + b"a" * 10,  # longer than the packet
        (b"\x3f" + b"a" * 63) * 4 + b"\0",  # longer than a name may be
        b"",
    ],
)
def test_a_name_that_cannot_end_is_malformed(packet: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read_name(packet, 0)


def with_options(*options: bytes) -> bytes:
    head = struct.pack("!HHHHHH", 7, 0, 1, 0, 0, len(options))
    return head + ask("a")[12:] + b"".join(b"\0" + each for each in options)


@pytest.mark.parametrize(
    ("packet", "code"),
    [
        (ask("a", flags=0x0100 | 2 << 11), NOT_IMPLEMENTED),
        (struct.pack("!HHHHHH", 7, 0, 2, 0, 0, 0) + ask("a")[12:] * 2, FORMAT_ERROR),
        (struct.pack("!HHHHHH", 7, 0, 0, 0, 0, 0), FORMAT_ERROR),
        (ask("a")[:-1], FORMAT_ERROR),
        (ask("a", class_=3), REFUSED),
        (ask("a") + b"junk", 0),
        (
            struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 1)
            + ask("a")[12:]
            + b"\0"
            + struct.pack("!HHIH", 41, 512, 1 << 16, 0),
            BAD_VERSION,
        ),
        (
            struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 2)
            + ask("a")[12:]
            + (b"\0" + struct.pack("!HHIH", 41, 512, 0, 0)) * 2,
            FORMAT_ERROR,
        ),
    ],
)
def test_an_unsupported_query_gets_an_error_code(packet: bytes, code: int) -> None:
    query = read_query(packet)
    assert query is not None
    assert query.trouble == code
    assert read(write_answer(query, DnsAnswer(query.trouble), 512)).code == code


def test_answers_and_scraps_are_not_answered() -> None:
    assert read_query(ask("a", flags=0x8000)) is None
    assert read_query(b"\x00" * 11) is None


@pytest.mark.parametrize(("edns", "size"), [(0, 512), (100, 512), (900, 900), (4096, 1232)])
def test_an_answer_fits_where_the_asker_says(edns: int, size: int) -> None:
    query = read_query(ask("web.default.svc.cluster.local", edns=edns))
    assert query is not None
    assert query.size == size
    records = tuple(address_record(("web", "x"), f"10.0.0.{number}", 5) for number in range(100))
    packet = write_answer(query, DnsAnswer(answers=records), query.size)
    assert len(packet) <= size
    said = read(packet)
    assert said.truncated
    assert said.answers == []
    assert said.edns == bool(edns)


def test_additional_records_are_left_out_before_an_answer_is_cut() -> None:
    query = read_query(ask("a"))
    assert query is not None
    extra = tuple(address_record(("x",), f"10.0.0.{number}", 5) for number in range(100))
    said = read(write_answer(query, DnsAnswer(answers=extra[:2], additional=extra), 512))
    assert not said.truncated
    assert (len(said.answers), said.additional) == (2, [])


def test_an_answer_repeats_the_question_letter_by_letter() -> None:
    query = read_query(ask("WeB.Example"))
    assert query is not None
    packet = write_answer(query, DnsAnswer(answers=(address_record(("web", "example"), "10.0.0.1", 5),)), 512)
    assert b"\x03WeB\x07Example" in packet
    assert read(packet).answers == ["WeB.Example A 10.0.0.1"]


def test_a_relayed_answer_is_the_askers_and_has_aged() -> None:
    query = read_query(ask("Example.com", number=99))
    reply = read_reply(made("example.com", "A", b"\x01\x02\x03\x04", ttl=60), 7, Question(("example", "com"), 1))
    assert query is not None
    said = read(relay(query, reply, 20, 512))
    assert (said.id, said.answers, said.ttls) == (99, ["Example.com A 1.2.3.4"], [40])
    assert read(relay(query, reply, 20, 30)).truncated


@pytest.mark.parametrize(
    "packet", [made("example.org", "A"), made("example.com", "AAAA"), made("example.com", "A", number=8)]
)
def test_an_answer_to_another_question_is_not_believed(packet: bytes) -> None:
    with pytest.raises(MalformedPacket):
        read_reply(packet, 7, Question(("example", "com"), 1))


def test_we_ask_as_others_do() -> None:
    query = read_query(write_query(5, Question(("example", "com"), 28), True))
    assert query is not None
    assert (query.id, query.question, query.edns) == (5, Question(("example", "com"), 28), True)


@given(st.ip_addresses())
def test_an_address_and_its_reverse_name_are_the_same(address: object) -> None:
    assert address_of(reverse_name(str(address))) == str(address)


@pytest.mark.parametrize(
    "text", ["1.2.3.in-addr.arpa", "a.2.3.4.in-addr.arpa", "999.2.3.4.in-addr.arpa", "x.ip6.arpa", "-" * 9]
)
def test_other_names_are_no_addresses(text: str) -> None:
    assert address_of(name_of(text)) is None
