"""What is written of protobuf by hand, where a schema and its generated code would be more than the message."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """A whole number, seven bits at a time, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
