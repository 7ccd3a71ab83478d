"""Hand-written protobuf encoding, for messages too small for a schema and generated code."""

from __future__ import annotations


def varint(number: int) -> bytes:
    """Encode a whole number, seven bits at a time, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
