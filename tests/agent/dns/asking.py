"""DNS queries as pods send them, and responses as they read them, with a parser independent of the product's."""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "TXT": 16, "AAAA": 28, "SRV": 33, "ANY": 255}
NAMES = {number: name for name, number in TYPES.items()}


class Said(NamedTuple):
    """A parsed response."""

    id: int
    code: int
    flags: int
    answers: list[str]
    authority: list[str]
    additional: list[str]
    edns: bool
    ttls: list[int]

    @property
    def truncated(self) -> bool:
        return bool(self.flags & 0x0200)

    @property
    def authoritative(self) -> bool:
        return bool(self.flags & 0x0400)


def ask(name: str, type: str = "A", number: int = 7, edns: int = 0, flags: int = 0x0100, class_: int = 1) -> bytes:
    """Encode a query."""
    labels = name.rstrip(".").split(".") if name.strip(".") else []
    question = b"".join(bytes((len(each),)) + each.encode() for each in labels) + b"\0"
    option = b"\0" + struct.pack("!HHIH", 41, edns, 0, 0) if edns else b""
    return (
        struct.pack("!HHHHHH", number, flags, 1, 0, 0, bool(edns))
        + question
        + struct.pack("!HH", TYPES[type], class_)
        + option
    )


def read(packet: bytes) -> Said:
    """Parse a response; its records become text like `web.default.svc.cluster.local A 10.96.0.9`."""
    number, flags, questions, *counts = struct.unpack_from("!HHHHHH", packet)
    offset = 12
    for _ in range(questions):
        _, offset = _name(packet, offset)
        offset += 4
    sections: list[list[str]] = [[], [], []]
    edns, ttls, code = False, list[int](), flags & 0xF
    for section, count in zip(sections, counts, strict=True):
        for _ in range(count):
            owner, offset = _name(packet, offset)
            kind, _class, ttl, length = struct.unpack_from("!HHIH", packet, offset)
            data_at = offset + 10
            offset = data_at + length
            if kind == 41:
                edns, code = True, code | (ttl >> 24) << 4
                continue
            ttls.append(ttl)
            section.append(f"{owner} {NAMES[kind]} {_data(packet, kind, data_at, length)}")
    assert offset == len(packet), "trailing bytes"
    answers, authority, additional = sections
    return Said(number, code, flags, answers, authority, additional, edns, ttls)


def _name(packet: bytes, offset: int) -> tuple[str, int]:
    labels: list[str] = []
    while packet[offset]:
        if packet[offset] >= 0xC0:
            rest, _ = _name(packet, struct.unpack_from("!H", packet, offset)[0] & 0x3FFF)
            return ".".join([*labels, rest]), offset + 2
        labels.append(packet[offset + 1 : offset + 1 + packet[offset]].decode())
        offset += 1 + packet[offset]
    return ".".join(labels), offset + 1


def _data(packet: bytes, type: int, at: int, length: int) -> Any:
    match NAMES[type]:
        case "A":
            return socket.inet_ntop(socket.AF_INET, packet[at : at + length])
        case "AAAA":
            return socket.inet_ntop(socket.AF_INET6, packet[at : at + length])
        case "PTR" | "CNAME":
            return _name(packet, at)[0]
        case "SRV":
            return f"{struct.unpack_from('!H', packet, at + 4)[0]} {_name(packet, at + 6)[0]}"
        case "SOA":
            return _name(packet, at)[0]
        case _:
            return packet[at : at + length]


def made(
    name: str, type: str, *data: bytes, number: int = 7, ttl: int = 60, code: int = 0, flags: int = 0x8180
) -> bytes:
    """Encode a response of a foreign resolver."""
    question = ask(name, type, number)[12:]
    records = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", TYPES[type], 1, ttl, len(each)) + each for each in data)
    return struct.pack("!HHHHHH", number, flags | code, 1, len(data), 0, 0) + question + records
