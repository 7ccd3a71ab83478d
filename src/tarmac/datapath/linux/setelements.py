"""Netlink messages for nftables set elements that time out.

A gateway renews its addresses three times a second. Parsing that as text in libnftables takes many times as long as the
kernel's own work, so these few messages are encoded here.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Final, NamedTuple

from tarmac.datapath.linux.netlink import CREATE, NetlinkMessage, attribute, nested, text

_NFTABLES: Final = 10  # the netfilter subsystem
_NEW, _DELETE = _NFTABLES << 8 | 12, _NFTABLES << 8 | 14  # NFT_MSG_NEWSETELEM, NFT_MSG_DELSETELEM
_BEGIN, _END = 0x10, 0x11  # NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END
_HEADER: Final = struct.Struct(">BBH")
_LONG: Final = struct.Struct(">Q")
_FAMILIES: Final = {"inet": 1, "arp": 3}
_TABLE, _SET, _ELEMENTS = 1, 2, 3
_ELEMENT: Final = 1
_KEY, _TIMEOUT, _VALUE = 1, 4, 1
_MAX_ELEMENTS: Final = 1000  # elements of one message: the length of their list has 16 bits


class SetName(NamedTuple):
    """The set that holds the elements."""

    family: str
    table: str
    name: str


def transaction(messages: Sequence[NetlinkMessage]) -> tuple[NetlinkMessage, Sequence[NetlinkMessage], NetlinkMessage]:
    """Return the parts of one transaction: its begin, the changes, its end."""
    around = _HEADER.pack(socket.AF_UNSPEC, 0, _NFTABLES)
    return NetlinkMessage(_BEGIN, 0, around), messages, NetlinkMessage(_END, 0, around)


def put(into: SetName, lives: Iterable[tuple[bytes, int]]) -> Iterator[NetlinkMessage]:
    """Yield messages that add elements with a timeout in milliseconds. Existing ones are left unchanged."""
    return _messages(_NEW, CREATE, into, [_lasting(key, left) for key, left in lives])


def take(out_of: SetName, keys: Iterable[bytes]) -> Iterator[NetlinkMessage]:
    """Yield messages that delete elements. The kernel rejects absent ones."""
    return _messages(_DELETE, 0, out_of, list(map(_named, keys)))


def _lasting(key: bytes, milliseconds: int) -> bytes:
    return _begun(key) + _LONG.pack(milliseconds)


@lru_cache(8192)
def _begun(key: bytes) -> bytes:
    """Encode an element up to its timeout."""
    before, between = _around(len(key), _LONG.size)
    return before + key + between


@lru_cache(8192)
def _named(key: bytes) -> bytes:
    """Encode an element without a timeout."""
    return _around(len(key), 0)[0] + key


@cache
def _around(key: int, timeout: int) -> tuple[bytes, bytes]:
    """Return the bytes before the key of an element, and between key and timeout: the same for all of one size."""
    lasts = attribute(_TIMEOUT, bytes(timeout)) if timeout else b""
    whole = nested(_ELEMENT, nested(_KEY, attribute(_VALUE, bytes(key))), lasts)
    before = len(whole) - len(lasts) - key
    return whole[:before], whole[before + key : len(whole) - timeout]


def _messages(kind: int, flags: int, where: SetName, elements: Sequence[bytes]) -> Iterator[NetlinkMessage]:
    head = _HEADER.pack(_FAMILIES[where.family], 0, 0) + text(_TABLE, where.table) + text(_SET, where.name)
    for start in range(0, len(elements), _MAX_ELEMENTS):
        yield NetlinkMessage(kind, flags, head + nested(_ELEMENTS, *elements[start : start + _MAX_ELEMENTS]))
