"""Bridges and their members by netlink, for the hosts of one machine."""

from __future__ import annotations

import struct
from typing import Final

from tarmac.datapath.linux import links
from tarmac.datapath.linux.netlink import CREATE, EXCLUSIVE, EXISTS, Netlink, NetlinkMessage, nested, number, text

_NEWLINK: Final = 16
_LINK_INFO: Final = struct.Struct("=BxHiII")
_NAME, _MTU, _MASTER, _INFO, _KIND = 3, 4, 10, 18, 1
_UP: Final = 1


def bridge(name: str, mtu: int) -> NetlinkMessage:
    """Create a bridge; an existing one stays."""
    body = _LINK_INFO.pack(0, 0, 0, 0, 0) + text(_NAME, name) + number(_MTU, mtu) + nested(_INFO, text(_KIND, "bridge"))
    return NetlinkMessage(_NEWLINK, CREATE | EXCLUSIVE, body, EXISTS)


def member(index: int, of: int) -> NetlinkMessage:
    """Attach a link to a bridge, and set it up."""
    return NetlinkMessage(_NEWLINK, 0, _LINK_INFO.pack(0, 0, index, _UP, _UP) + number(_MASTER, of))


def index_of(netlink: Netlink, name: str) -> int:
    """Return the index of a link. Raises OSError if there is none."""
    found = links.link(netlink, name)
    if found is None:
        raise OSError(f"the link {name} went away while it was set up")
    return found.index
