"""Reads and deletes connection tracking entries of one network namespace.

The kernel keeps the entries of all namespaces in one large table and walks all of it for each query: ten milliseconds,
even if the namespace has none. Query only for a reason.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from tarmac.datapath.egress import TranslatedConnection
from tarmac.datapath.linux.netlink import GONE, Netlink, NetlinkMessage, attributes

_GET: Final = 0x101
_DELETE: Final = 0x102
_HEADER: Final = 4
_ORIGINAL, _REPLY, _MARK = 1, 2, 8
_COUNTED, _COUNTED_BACK, _TIMES = 9, 10, 20
_BYTES, _START = 2, 1
_ADDRESSES, _PROTOCOL = 1, 2
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_PORT: Final = (6).to_bytes(2, "little") + (2).to_bytes(2, "little")
_BEGINNER: Final[dict[int, tuple[int, int]]] = {socket.AF_INET: (44, 104), socket.AF_INET6: (68, 152)}
"""Offsets of the client's port: in the first tuple behind `_PORT`, and in the second tuple, where it comes last."""
_PROTOCOLS: Final = {6: "TCP", 17: "UDP", 132: "SCTP"}

CONTROLS: Final = {"netfilter/nf_conntrack_acct": "1", "netfilter/nf_conntrack_timestamp": "1"}
"""Enables byte counters and start times for connections that begin from now on."""


@dataclass(frozen=True, slots=True)
class TrackedConnection:
    """A connection: the client, the address it dialled, and the address and port that answer after translation."""

    source: str
    meant: str
    answerer: str
    protocol: str
    port: int | None
    identity: bytes
    source_port: int | None = None
    meant_port: int | None = None
    mark: int = 0


def forget(netlink: Netlink, unwanted: Callable[[TrackedConnection], bool]) -> int:
    """Delete unwanted connections and return their number."""
    # Collected first: a request on the socket in the middle of a dump would mix their answers.
    found: list[NetlinkMessage] = []
    for _, body in netlink.dump(_GET, bytes((socket.AF_UNSPEC, 0, 0, 0))):
        family = body[0]
        connection = _read(family, body) if family in _FAMILIES else None
        if connection is not None and unwanted(connection):
            found.append(NetlinkMessage(_DELETE, 0, bytes((family, 0, 0, 0)) + connection.identity, GONE))
    netlink.request(found)
    return len(found)


def translations(netlink: Netlink, through: Collection[str], most: int) -> list[TranslatedConnection]:
    """Return at most `most` connections that are translated to or from these addresses."""
    # Compare raw bytes: decoding every connection of a busy gateway would block the datapath's thread.
    packed = [socket.inet_pton(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in through]
    found: list[TranslatedConnection] = []
    for _, body in netlink.dump(_GET, bytes((socket.AF_UNSPEC, 0, 0, 0))):
        # Read to the end even if there are enough: the remainder in the socket would be taken for the next answer.
        if len(found) < most and body[0] in _FAMILIES and any(each in body for each in packed):
            connection = _translated(body[0], body)
            if connection is not None and any(address in through for address, _ in connection.ends):
                found.append(connection)
    return found


def tally(netlink: Netlink) -> list[tuple[TranslatedConnection, int]]:
    """Return all connections with their number; those that differ only in the client's port count as one."""
    # Grouped by raw bytes, and decoded once per group: a busy gateway has a hundred thousand connections.
    numbers, first = dict[bytes, int](), dict[bytes, bytes]()
    for _, body in netlink.dump(_GET, bytes((socket.AF_UNSPEC, 0, 0, 0))):
        port, end = _BEGINNER.get(body[0], (4, 4))
        if body[port - 4 : port] == _PORT:
            sort = body[:port] + body[port + 2 : end]
            if sort not in first:
                first[sort] = body
            numbers[sort] = numbers.get(sort, 0) + 1
    taken = ((_translated(body[0], body), numbers[sort]) for sort, body in first.items())
    return [(one, number) for one, number in taken if one is not None]


def _translated(family: int, body: bytes) -> TranslatedConnection | None:
    parts = attributes(body, _HEADER)
    if _ORIGINAL not in parts or _REPLY not in parts:
        return None
    source, meant, protocol, ports = _tuple(family, parts[_ORIGINAL])
    answerer, seen, _, back = _tuple(family, parts[_REPLY])
    started = int.from_bytes(attributes(parts.get(_TIMES, b"")).get(_START, b""))
    return TranslatedConnection(
        protocol,
        (source, ports[0] or 0),
        (meant, ports[1] or 0),
        (answerer, back[0] or 0),
        (seen, back[1] or 0),
        int.from_bytes(attributes(parts.get(_COUNTED, b"")).get(_BYTES, b"")),
        int.from_bytes(attributes(parts.get(_COUNTED_BACK, b"")).get(_BYTES, b"")),
        started / 1e9,
    )


def _read(family: int, body: bytes) -> TrackedConnection | None:
    parts = attributes(body, _HEADER)
    if _ORIGINAL not in parts or _REPLY not in parts:
        return None
    source, meant, protocol, ports = _tuple(family, parts[_ORIGINAL])
    answerer, _, _, (port, _) = _tuple(family, parts[_REPLY])
    mark = int.from_bytes(parts.get(_MARK, b""))
    return TrackedConnection(source, meant, answerer, protocol, port, _identity(parts[_ORIGINAL]), *ports, mark)


def _tuple(family: int, content: bytes) -> tuple[str, str, str, tuple[int | None, int | None]]:
    """Return source, destination, protocol and both ports."""
    parts = attributes(content)
    addresses, protocol = attributes(parts[_ADDRESSES]), attributes(parts[_PROTOCOL])
    first = 1 if family == socket.AF_INET else 3
    number = protocol[1][0]
    ports = tuple(int.from_bytes(protocol[each]) if each in protocol else None for each in (2, 3))
    source, destination = (socket.inet_ntop(family, addresses[each]) for each in (first, first + 1))
    return source, destination, _PROTOCOLS.get(number, str(number)), (ports[0], ports[1])


def _identity(original: bytes) -> bytes:
    length = len(original) + 4
    return length.to_bytes(2, "little") + (_ORIGINAL | 0x8000).to_bytes(2, "little") + original
