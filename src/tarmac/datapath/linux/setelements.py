"""Elements of nftables' sets that come and go by themselves, as messages of netlink.

A gateway renews its addresses three times a second. To have libnftables read that as text takes many times what the
kernel needs to do it, so these few messages are made here.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from tarmac.datapath.linux.netlink import CREATE, Message, attribute, nested, text

_NFTABLES: Final = 10  # the part of netfilter
_NEW, _DELETE = _NFTABLES << 8 | 12, _NFTABLES << 8 | 14  # NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM
_BEGIN, _END = 0x10, 0x11  # NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END
_HEADER: Final = struct.Struct(">BBH")
_LONG: Final = struct.Struct(">Q")
_FAMILIES: Final = {"inet": 1, "arp": 3}
_TABLE, _SET, _ELEMENTS = 1, 2, 3
_ELEMENT: Final = 1
_KEY, _TIMEOUT, _VALUE = 1, 4, 1
_MOST: Final = 1000  # elements of one message, whose list has to say its length in 16 bits


class SetName(NamedTuple):
    """Where elements are."""

    family: str
    table: str
    name: str


def transaction(messages: Sequence[Message]) -> tuple[Message, Sequence[Message], Message]:
    """What makes one transaction of changes: its begin, the changes, its end."""
    around = _HEADER.pack(socket.AF_UNSPEC, 0, _NFTABLES)
    return Message(_BEGIN, 0, around), messages, Message(_END, 0, around)


def put(into: SetName, lives: Iterable[tuple[bytes, int]]) -> Iterator[Message]:
    """Have elements live for so many milliseconds. One that is there goes on as it was."""
    return _messages(_NEW, CREATE, into, [_lasting(key, left) for key, left in lives])


def take(out_of: SetName, keys: Iterable[bytes]) -> Iterator[Message]:
    """Have elements there no more. One that is not there is refused."""
    return _messages(_DELETE, 0, out_of, [_around(len(key), 0)[0] + key for key in keys])


def _lasting(key: bytes, milliseconds: int) -> bytes:
    before, between = _around(len(key), _LONG.size)
    return before + key + between + _LONG.pack(milliseconds)


@cache
def _around(key: int, timeout: int) -> tuple[bytes, bytes]:
    """What stands before the key of an element, and between it and its time: the same for all of a size."""
    lasts = attribute(_TIMEOUT, bytes(timeout)) if timeout else b""
    whole = nested(_ELEMENT, nested(_KEY, attribute(_VALUE, bytes(key))), lasts)
    before = len(whole) - len(lasts) - key
    return whole[:before], whole[before + key : len(whole) - timeout]


def _messages(kind: int, flags: int, where: SetName, elements: Sequence[bytes]) -> Iterator[Message]:
    head = _HEADER.pack(_FAMILIES[where.family], 0, 0) + text(_TABLE, where.table) + text(_SET, where.name)
    for start in range(0, len(elements), _MOST):
        yield Message(kind, flags, head + nested(_ELEMENTS, *elements[start : start + _MOST]))
