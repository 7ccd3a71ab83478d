"""Identifies the client of a socket in a network's router namespace by the link its packets came in on.

Source addresses are ambiguous, since several networks may use the same; a link belongs to exactly one pod.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from typing import Final

_IP_PKTINFO: Final = 8
_IP_PKTOPTIONS: Final = 9
_IPV6_RECVPKTINFO: Final = 49
_IPV6_PKTINFO: Final = 50
_IPV6_2292PKTOPTIONS: Final = 6
_V4: Final = struct.Struct("I4s4s")
_V6: Final = struct.Struct("16sI")
_HEADER: Final = struct.Struct("@NII")  # of one control message: its length, level and type
_MAX_CONTROL_BYTES: Final = 128

Message = tuple[int, int, bytes]


def enable_packet_info(made: socket.socket) -> None:
    """Make the kernel report the link of incoming packets."""
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
    else:
        made.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)


def link_of_message(messages: Iterable[Message]) -> int:
    """Return the index of the link that a datagram came in on, from its control messages; 0 if unknown."""
    for level, kind, data in messages:
        if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO) and len(data) >= _V4.size:
            return _V4.unpack_from(data)[0]
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_PKTINFO) and len(data) >= _V6.size:
            return _V6.unpack_from(data)[1]
    return 0


def link_of_connection(accepted: socket.socket) -> int:
    """Return the index of the link that an accepted connection came in on; 0 if unknown."""
    ipv6 = accepted.family == socket.AF_INET6
    level, option = (socket.IPPROTO_IPV6, _IPV6_2292PKTOPTIONS) if ipv6 else (socket.IPPROTO_IP, _IP_PKTOPTIONS)
    try:
        enable_packet_info(accepted)  # the kernel has recorded it, and reports it only with this option set
        return link_of_message(_messages(accepted.getsockopt(level, option, _MAX_CONTROL_BYTES)))
    except OSError:
        return 0


def _messages(raw: bytes) -> Iterable[Message]:
    """Yield the control messages in a buffer, each padded to the size of a word."""
    offset = 0
    while offset + _HEADER.size <= len(raw):
        length, level, kind = _HEADER.unpack_from(raw, offset)
        # A length below that of the header would not advance the offset: the loop would not end.
        if length < _HEADER.size:
            return
        yield level, kind, raw[offset + _HEADER.size : offset + length]
        offset += length + -length % 8
