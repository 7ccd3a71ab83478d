"""DNS messages: parses queries, writes responses, and parses upstream replies as far as needed.

Implements the part of RFC 1035 and RFC 6891 that a resolver for pods needs. A library would add every record type,
while most of the work would remain: malformed packets, size limits, and the verification of replies.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, NamedTuple

from tarmac.agent.dns.domainnames import MalformedPacket, Name, read_name, write_name

A: Final = 1
CNAME: Final = 5
SOA: Final = 6
PTR: Final = 12
AAAA: Final = 28
SRV: Final = 33
OPT: Final = 41
ANY: Final = 255
IN: Final = 1

NO_ERROR: Final = 0
FORMAT_ERROR: Final = 1
SERVER_FAILURE: Final = 2
NO_SUCH_NAME: Final = 3
NOT_IMPLEMENTED: Final = 4
REFUSED: Final = 5
BAD_VERSION: Final = 16

MAX_PLAIN_UDP: Final = 512  # size limit of a UDP response without EDNS
MAX_UDP: Final = 1232  # maximum size sent over UDP: never fragmented
MAX_TCP: Final = 65535
MAX_EXTRAS: Final = 4  # records after a question: OPT, and possibly a signature
MAX_RECORDS: Final = 1000  # per message, sent or received: each costs time to parse and to write

_HEADER: Final = struct.Struct("!HHHHHH")
_QUESTION: Final = struct.Struct("!HH")
_RECORD: Final = struct.Struct("!HHIH")
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _DESIRED, _AVAILABLE = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_OPCODE: Final = 0x7800
_TO_QUESTION: Final = b"\xc0\x0c"


class Question(NamedTuple):
    """A question in class IN."""

    name: Name
    type: int


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. `trouble` is the error code to respond with if it is invalid."""

    id: int
    flags: int
    question: Question | None = None
    asked: bytes = b""  # the question as received, in its original case: responses repeat it
    edns: bool = False
    size: int = MAX_PLAIN_UDP
    trouble: int = NO_ERROR


class Record(NamedTuple):
    """One record of a response."""

    name: Name
    type: int
    ttl: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DnsAnswer:
    """A response to a question. `follow`: the records end in an alias whose target must still be resolved."""

    code: int = NO_ERROR
    answers: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    authoritative: bool = True
    follow: Name | None = field(default=None)


def address_record(name: Name, address: str, ttl: int) -> Record:
    """Return an A or AAAA record."""
    parsed = ip_address(address)
    return Record(name, A if parsed.version == 4 else AAAA, ttl, parsed.packed)


def name_record(type: int, name: Name, target: Name, ttl: int) -> Record:
    """Return a CNAME or PTR record."""
    return Record(name, type, ttl, write_name(target))


def service_record(name: Name, port: int, target: Name, ttl: int, weight: int = 100) -> Record:
    """Return an SRV record."""
    return Record(name, SRV, ttl, struct.pack("!HHH", 0, weight, port) + write_name(target))


def start_record(zone: Name, ttl: int) -> Record:
    """Return an SOA record, with the TTL of negative responses."""
    numbers = struct.pack("!IIIII", 1, 7200, 1800, 86400, ttl)
    return Record(zone, SOA, ttl, write_name(("ns", "dns", *zone)) + write_name(("hostmaster", *zone)) + numbers)


def read_query(packet: bytes) -> Query | None:
    """Parse a query; None if it gets no response: it is a response itself, or too short to have an id."""
    if len(packet) < _HEADER.size:
        return None
    number, flags, questions, answers, authorities, additionals = _HEADER.unpack_from(packet)
    if flags & _RESPONSE:
        return None
    if flags & _OPCODE:
        return Query(number, flags, trouble=NOT_IMPLEMENTED)
    if questions != 1 or answers or authorities or additionals > MAX_EXTRAS:
        return Query(number, flags, trouble=FORMAT_ERROR)
    try:
        return _read_question(packet, number, flags, additionals)
    except MalformedPacket:
        return Query(number, flags, trouble=FORMAT_ERROR)


def _read_question(packet: bytes, id: int, flags: int, additionals: int) -> Query:
    name, end = read_name(packet, _HEADER.size)
    if end + _QUESTION.size > len(packet):
        raise MalformedPacket("a question that ends too soon")
    kind, class_ = _QUESTION.unpack_from(packet, end)
    end += _QUESTION.size
    asked = packet[_HEADER.size : end]
    options = [each for each in _records(packet, end, additionals) if each.type == OPT]
    if len(options) > 1:
        raise MalformedPacket("more than one OPT record")
    size, trouble = MAX_PLAIN_UDP, NO_ERROR if class_ == IN else REFUSED
    if options:
        # RFC 6891: a client that announces less than 512 bytes gets 512.
        size = max(MAX_PLAIN_UDP, min(options[0].class_, MAX_UDP))
        trouble = BAD_VERSION if options[0].ttl >> 16 & 0xFF else trouble
    return Query(id, flags, Question(name, kind), asked, bool(options), size, trouble)


class _Seen(NamedTuple):
    """A record of a received packet, with the offsets of its TTL and data."""

    name: Name
    type: int
    class_: int
    ttl: int
    ttl_at: int
    data_at: int
    end: int


def _records(packet: bytes, offset: int, count: int) -> Iterator[_Seen]:
    for _ in range(count):
        name, offset = read_name(packet, offset)
        if offset + _RECORD.size > len(packet):
            raise MalformedPacket("a record that ends too soon")
        kind, class_, ttl, length = _RECORD.unpack_from(packet, offset)
        start, end = offset + _RECORD.size, offset + _RECORD.size + length
        if end > len(packet):
            raise MalformedPacket("a record that ends too soon")
        yield _Seen(name, kind, class_, ttl, offset + 4, start, end)
        offset = end


def write_answer(query: Query, answer: DnsAnswer, limit: int) -> bytes:
    """Write a response within a size limit: first drop additional records, then truncate."""
    for additional in (answer.additional, ()):
        packet = _write(query, answer, additional)
        if len(packet) <= limit:
            return packet
    # Without records: a client asks again by TCP, and cannot take a part of the answer for the whole.
    return _write(query, DnsAnswer(answer.code, authoritative=answer.authoritative), (), _TRUNCATED)


def _write(query: Query, answer: DnsAnswer, additional: Sequence[Record], flags: int = 0) -> bytes:
    flags |= _RESPONSE | _AVAILABLE | query.flags & (_OPCODE | _DESIRED) | answer.code & 0xF
    flags |= _AUTHORITATIVE if answer.authoritative else 0
    sections = (answer.answers, answer.authority, additional)
    counts = [len(answer.answers), len(answer.authority), len(additional) + query.edns]
    parts = [_HEADER.pack(query.id, flags, 1 if query.asked else 0, *counts), query.asked]
    asked = query.question.name if query.question else None
    parts += [_write_record(record, asked) for section in sections for record in section]
    if query.edns:
        parts.append(b"\0" + _RECORD.pack(OPT, MAX_UDP, answer.code >> 4 << 24, 0))
    return b"".join(parts)


def _write_record(record: Record, asked: Name | None) -> bytes:
    name = _TO_QUESTION if record.name == asked else write_name(record.name)
    return name + _RECORD.pack(record.type, IN, record.ttl, len(record.data)) + record.data


def write_query(id: int, question: Question, edns: bool) -> bytes:
    """Write a recursive query to an upstream resolver."""
    asked = write_name(question.name) + _QUESTION.pack(question.type, IN)
    option = b"\0" + _RECORD.pack(OPT, MAX_UDP, 0, 0) if edns else b""
    return _HEADER.pack(id, _DESIRED, 1, 0, 0, int(edns)) + asked + option


@dataclass(frozen=True, slots=True)
class UpstreamReply:
    """A reply of an upstream resolver. `ttl_offsets`: the positions of its TTLs."""

    packet: bytes
    code: int
    truncated: bool
    ttl: int  # the smallest of its records
    ttl_offsets: tuple[int, ...]
    addresses: tuple[Record, ...]  # including the aliases that lead to them


def read_reply(packet: bytes, id: int, question: Question) -> UpstreamReply:
    """Parse the reply to our question. Raises MalformedPacket, also if it belongs to a different question."""
    if len(packet) < _HEADER.size:
        raise MalformedPacket("an answer that ends too soon")
    got, flags, questions, *counts = _HEADER.unpack_from(packet)
    if got != id or not flags & _RESPONSE or questions != 1:
        raise MalformedPacket("not an answer to our question")
    if sum(counts) > MAX_RECORDS:
        raise MalformedPacket("an answer of too many records")
    name, end = read_name(packet, _HEADER.size)
    # `relay` overwrites it with the client's question, of the same length
    if end - _HEADER.size != len(write_name(name)):
        raise MalformedPacket("a question that is compressed")
    if end + _QUESTION.size > len(packet) or Question(name, _QUESTION.unpack_from(packet, end)[0]) != question:
        raise MalformedPacket("an answer to another question")
    seen = list(_records(packet, end + _QUESTION.size, sum(counts)))
    lasting = [each for each in seen if each.type != OPT]
    return UpstreamReply(
        packet=packet,
        code=flags & 0xF,
        truncated=bool(flags & _TRUNCATED),
        ttl=min((each.ttl for each in lasting), default=0),
        ttl_offsets=tuple(each.ttl_at for each in lasting),
        addresses=tuple(_copied(packet, each) for each in seen[: counts[0]] if each.type in (A, AAAA, CNAME)),
    )


def _copied(packet: bytes, seen: _Seen) -> Record:
    """Return a record without pointers into its packet."""
    data = packet[seen.data_at : seen.end]
    if seen.type == CNAME:
        data = write_name(read_name(packet, seen.data_at)[0])
    return Record(seen.name, seen.type, seen.ttl, data)


def relay(query: Query, reply: UpstreamReply, age: int, limit: int) -> bytes:
    """Rewrite an upstream reply for this client: its question, TTLs reduced by the age, within a size limit."""
    if len(reply.packet) > limit:
        return _write(query, DnsAnswer(reply.code, authoritative=False), (), _TRUNCATED)
    packet = bytearray(reply.packet)
    flags = _HEADER.unpack_from(packet)[1] & ~_AUTHORITATIVE | _AVAILABLE | query.flags & _DESIRED
    struct.pack_into("!HH", packet, 0, query.id, flags)
    packet[_HEADER.size : _HEADER.size + len(query.asked)] = query.asked
    for offset in reply.ttl_offsets:
        (ttl,) = struct.unpack_from("!I", packet, offset)
        struct.pack_into("!I", packet, offset, max(ttl - age, 0))
    return bytes(packet)
