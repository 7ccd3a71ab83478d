"""Connections that the kernel remembers in one network namespace, and forgetting those that may no longer be.

The kernel keeps those of all namespaces in one large table and walks all of it when asked: ten milliseconds, whether
there are any or not. Ask when there is a reason.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tarmac.datapath.linux.netlink import GONE, Message, Netlink, attributes

_GET: Final = 0x101
_DELETE: Final = 0x102
_HEADER: Final = 4
_ORIGINAL, _REPLY = 1, 2
_ADDRESSES, _PROTOCOL = 1, 2
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_PROTOCOLS: Final = {6: "TCP", 17: "UDP", 132: "SCTP"}


@dataclass(frozen=True, slots=True)
class TrackedConnection:
    """Who began it, to whom they meant to speak, and who answers at which port: the last two differ by translation."""

    source: str
    meant: str
    answerer: str
    protocol: str
    port: int | None
    identity: bytes


def forget(netlink: Netlink, unwanted: Callable[[TrackedConnection], bool]) -> int:
    """Forget connections; how many."""
    found: list[Message] = []
    for _, body in netlink.dump(_GET, bytes((socket.AF_UNSPEC, 0, 0, 0))):
        family = body[0]
        connection = _read(family, body) if family in _FAMILIES else None
        if connection is not None and unwanted(connection):
            found.append(Message(_DELETE, 0, bytes((family, 0, 0, 0)) + connection.identity, GONE))
    netlink.request(found)
    return len(found)


def _read(family: int, body: bytes) -> TrackedConnection | None:
    parts = attributes(body, _HEADER)
    if _ORIGINAL not in parts or _REPLY not in parts:
        return None
    source, meant, protocol, _ = _tuple(family, parts[_ORIGINAL])
    answerer, _, _, port = _tuple(family, parts[_REPLY])
    return TrackedConnection(source, meant, answerer, protocol, port, _identity(parts[_ORIGINAL]))


def _tuple(family: int, content: bytes) -> tuple[str, str, str, int | None]:
    """Source, destination, protocol and the source's port."""
    parts = attributes(content)
    addresses, protocol = attributes(parts[_ADDRESSES]), attributes(parts[_PROTOCOL])
    first = 1 if family == socket.AF_INET else 3
    number = protocol[1][0]
    port = int.from_bytes(protocol[2], "big") if 2 in protocol else None
    source, destination = (socket.inet_ntop(family, addresses[each]) for each in (first, first + 1))
    return source, destination, _PROTOCOLS.get(number, str(number)), port


def _identity(original: bytes) -> bytes:
    length = len(original) + 4
    return length.to_bytes(2, "little") + (_ORIGINAL | 0x8000).to_bytes(2, "little") + original
