"""Domain names on the wire (RFC 1035), as tuples of labels in lower case: `("web", "default", "svc")`.

Parsing any packet terminates quickly: compression pointers may only point backwards, their number and the length of a
name are limited.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

Name = tuple[str, ...]

MAX_NAME = 255
MAX_LABEL = 63
MAX_POINTERS = 16  # per name; legitimate compression needs one
_POINTER = 0xC0


class MalformedPacket(Exception):
    """The packet is malformed."""


def read_name(packet: bytes, offset: int) -> tuple[Name, int]:
    """Return the name at an offset, and the offset after it. Raises MalformedPacket."""
    labels: list[str] = []
    length, end, barrier, pointers = 1, 0, offset, 0
    while True:
        size = _byte(packet, offset)
        if size & _POINTER == _POINTER:
            end = end or offset + 2
            offset = (size & ~_POINTER) << 8 | _byte(packet, offset + 1)
            pointers += 1
            if offset >= barrier or pointers > MAX_POINTERS:
                raise MalformedPacket("a name that points forward, or from pointer to pointer")
            barrier = offset
            continue
        if size & _POINTER:
            raise MalformedPacket("an unknown kind of label")
        if not size:
            return tuple(labels), end or offset + 1
        length += size + 1
        if length > MAX_NAME or offset + 1 + size > len(packet):
            raise MalformedPacket("a name that is too long")
        labels.append(packet[offset + 1 : offset + 1 + size].decode("latin-1").lower())
        offset += 1 + size


def write_name(name: Name) -> bytes:
    """Encode a name, uncompressed."""
    parts = [label.encode("latin-1") for label in name]
    return b"".join(bytes((len(part),)) + part for part in parts) + b"\0"


def name_of(text: str) -> Name:
    """Parse `a.example.`. Raises MalformedPacket."""
    labels = tuple(text.lower().rstrip(".").split(".")) if text.strip(".") else ()
    if any(not 0 < len(label) <= MAX_LABEL for label in labels) or len(text) >= MAX_NAME - 1:
        raise MalformedPacket(f"{text!r} is not a name")
    return labels


def reverse_name(address: str) -> Name:
    """Return the name for the reverse lookup of an address."""
    return tuple(ip_address(address).reverse_pointer.split("."))


def address_of(name: Name) -> str | None:
    """Return the address of a reverse name; None for other names."""
    try:
        if name[-2:] == ("in-addr", "arpa") and len(name) == 6:
            return str(IPv4Address(".".join(reversed(name[:4]))))
        if name[-2:] == ("ip6", "arpa") and len(name) == 34:
            digits = "".join(reversed(name[:32]))
            return str(IPv6Address(int(digits, 16))) if all(len(each) == 1 for each in name[:32]) else None
    except ValueError:
        return None
    return None


def _byte(packet: bytes, offset: int) -> int:
    if offset >= len(packet):
        raise MalformedPacket("a packet that ends too soon")
    return packet[offset]
