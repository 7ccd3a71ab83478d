"""Addresses, routes and neighbours by netlink, for both families."""

from __future__ import annotations

import socket
import struct
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Final

from tarmac.datapath.linux.netlink import (
    CREATE,
    EXISTS,
    GONE,
    REPLACE,
    Netlink,
    NetlinkMessage,
    attribute,
    attributes,
    nested,
    number,
)

_NEWADDR, _DELADDR, _GETADDR, _NEWROUTE, _DELROUTE, _GETROUTE = 20, 21, 22, 24, 25, 26
_NEWNEIGH, _DELNEIGH, _GETNEIGH = 28, 29, 30

_ADDRESS_INFO: Final = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_ROUTE_INFO: Final = struct.Struct("=BBBBBBBBI")  # family, to, from, tos, table, protocol, scope, type, flags
_NEIGHBOUR_INFO: Final = struct.Struct("=B3xiHBB")  # family, index, state, flags, type

_PRIORITY, _METRICS, _MTU = 6, 8, 2
MAIN: Final = 254
_OF_ANY_NUMBER: Final = 252
_UNIVERSE, _LINK = 0, 253
_UNICAST, _LOCAL, _UNREACHABLE = 1, 2, 7
_ONLINK: Final = 0x4
_NO_DAD: Final = 0x02
_EVERYWHERE: Final = 0  # the scope of an address
_PERMANENT: Final = 0x80
_SELF: Final = 0x02
_BRIDGE_FAMILY: Final = 7
OURS: Final = 116
"""The protocol number that marks routes as the datapath's."""

STATIC: Final = 4
"""The protocol number of routes by an administrator: the datapath leaves them alone."""


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """A route, wanted or found. Without a gateway it is on-link; without a link it is unreachable.

    `mtu` is the largest packet, if that is less than the link's. Of two routes to one destination in a table the kernel
    uses the one with the lower `metric`; 0 is the kernel's default. A gateway is assumed to be on-link, unless
    `checked`: then a route of the table must cover it, and the gateway may be on other links too.
    """

    prefix: str
    link: int = 0
    gateway: str = ""
    table: int = MAIN
    mtu: int = 0
    metric: int = 0
    checked: bool = False
    protocol: int = OURS


def host_prefix(value: str) -> str:
    """Return the prefix of a single address."""
    return f"{value}/{128 if ':' in value else 32}"


def address(index: int, value: str, prefix_length: int | None = None) -> NetlinkMessage:
    """Add an address to a link, by default of a single host."""
    family, packed = _packed(value)
    length = len(packed) * 8 if prefix_length is None else prefix_length
    # Without duplicate detection: the address must be usable at once, and is unique by assignment.
    body = _ADDRESS_INFO.pack(family, length, _NO_DAD if family == socket.AF_INET6 else 0, 0, index)
    body += attribute(2, packed) + attribute(1, packed)
    return NetlinkMessage(_NEWADDR, CREATE | REPLACE, body, EXISTS)


def no_address(index: int, value: str) -> NetlinkMessage:
    """Remove an address from a link."""
    family, packed = _packed(value)
    body = _ADDRESS_INFO.pack(family, len(packed) * 8, 0, 0, index) + attribute(2, packed)
    return NetlinkMessage(_DELADDR, 0, body, GONE)


def addresses(netlink: Netlink, index: int) -> set[str]:
    """Return the addresses of a link."""
    found: set[str] = set()
    for _, body in netlink.dump(_GETADDR, _ADDRESS_INFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        family, _, _, _, of = _ADDRESS_INFO.unpack_from(body)
        entry = attributes(body, _ADDRESS_INFO.size)
        if of == index and family in (socket.AF_INET, socket.AF_INET6):
            found.add(socket.inet_ntop(family, entry.get(2) or entry[1]))
    return found


def prefixed_addresses(netlink: Netlink) -> dict[int, list[str]]:
    """Return the addresses of every link with their prefix lengths, by index; none with link scope."""
    found: dict[int, list[str]] = {}
    for _, body in netlink.dump(_GETADDR, _ADDRESS_INFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        family, length, _, scope, of = _ADDRESS_INFO.unpack_from(body)
        entry = attributes(body, _ADDRESS_INFO.size)
        if family in (socket.AF_INET, socket.AF_INET6) and scope == _EVERYWHERE:
            found.setdefault(of, []).append(f"{socket.inet_ntop(family, entry.get(2) or entry[1])}/{length}")
    return found


def holder(netlink: Netlink, value: str) -> int | None:
    """Return the index of the link that has an address."""
    family, packed = _packed(value)
    for _, body in netlink.dump(_GETADDR, _ADDRESS_INFO.pack(family, 0, 0, 0, 0)):
        of, _, _, _, index = _ADDRESS_INFO.unpack_from(body)
        found = attributes(body, _ADDRESS_INFO.size)
        if of == family and packed in (found.get(1), found.get(2)):
            return index
    return None


def route(wanted: Route) -> NetlinkMessage:
    """Create a route, or replace the one to the same destination with the same metric."""
    return NetlinkMessage(_NEWROUTE, CREATE | REPLACE, _route_body(wanted))


def no_route(unwanted: Route) -> NetlinkMessage:
    """Remove a route."""
    return NetlinkMessage(_DELROUTE, 0, _route_body(unwanted), GONE)


def routes(netlink: Netlink, tables: Container[int] = (MAIN,), protocol: int = OURS) -> Iterator[Route]:
    """Yield the routes of a protocol in some tables, of both families; by default the datapath's own."""
    for family in (socket.AF_INET, socket.AF_INET6):
        for _, body in netlink.dump(_GETROUTE, _ROUTE_INFO.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
            _, length, _, _, _, origin, _, _, _ = _ROUTE_INFO.unpack_from(body)
            found = attributes(body, _ROUTE_INFO.size)
            table = int.from_bytes(found.get(15, b""), "little")
            if origin == protocol and table in tables:
                yield _read_route(family, length, table, origin, found)


def is_local(netlink: Netlink, value: str) -> bool:
    """Return True if packets to an address are delivered here.

    For a new IPv6 address that takes the kernel a moment.
    """
    family, packed = _packed(value)
    body = _ROUTE_INFO.pack(family, len(packed) * 8, 0, 0, 0, 0, 0, 0, 0) + attribute(1, packed)
    found = netlink.get(_GETROUTE, body)
    return found is not None and _ROUTE_INFO.unpack_from(found)[7] == _LOCAL


def neighbour(index: int, value: str, mac: str) -> NetlinkMessage:
    """Add a permanent neighbour: the hardware address of an address."""
    family, packed = _packed(value)
    body = _NEIGHBOUR_INFO.pack(family, index, _PERMANENT, 0, 0)
    return NetlinkMessage(_NEWNEIGH, CREATE | REPLACE, body + attribute(1, packed) + attribute(2, _hardware(mac)))


def no_neighbour(index: int, value: str) -> NetlinkMessage:
    """Delete a neighbour."""
    family, packed = _packed(value)
    return NetlinkMessage(_DELNEIGH, 0, _NEIGHBOUR_INFO.pack(family, index, 0, 0, 0) + attribute(1, packed), GONE)


def neighbours(netlink: Netlink) -> dict[int, dict[str, str]]:
    """Return permanent neighbours by link: hardware address by address."""
    found: dict[int, dict[str, str]] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        for _, body in netlink.dump(_GETNEIGH, _NEIGHBOUR_INFO.pack(family, 0, 0, 0, 0)):
            of, index, state, _, _ = _NEIGHBOUR_INFO.unpack_from(body)
            entry = attributes(body, _NEIGHBOUR_INFO.size)
            if of == family and state & _PERMANENT and 1 in entry and 2 in entry:
                found.setdefault(index, {})[socket.inet_ntop(family, entry[1])] = entry[2].hex(":")
    return found


def forwarding(index: int, mac: str, node: str) -> NetlinkMessage:
    """Add a forwarding entry: the node behind a hardware address of a tunnel."""
    body = _NEIGHBOUR_INFO.pack(_BRIDGE_FAMILY, index, _PERMANENT, _SELF, 0)
    body += attribute(2, _hardware(mac)) + attribute(1, _packed(node)[1])
    return NetlinkMessage(_NEWNEIGH, CREATE | REPLACE, body)


def no_forwarding(index: int, mac: str) -> NetlinkMessage:
    """Delete a forwarding entry of a tunnel."""
    body = _NEIGHBOUR_INFO.pack(_BRIDGE_FAMILY, index, _PERMANENT, _SELF, 0) + attribute(2, _hardware(mac))
    return NetlinkMessage(_DELNEIGH, 0, body, GONE)


def forwardings(netlink: Netlink, index: int) -> dict[str, str]:
    """Return the tunnel's forwarding table: node by hardware address."""
    found: dict[str, str] = {}
    for _, body in netlink.dump(_GETNEIGH, _NEIGHBOUR_INFO.pack(_BRIDGE_FAMILY, 0, 0, 0, 0)):
        of, link, _, _, _ = _NEIGHBOUR_INFO.unpack_from(body)
        entry = attributes(body, _NEIGHBOUR_INFO.size)
        if of == _BRIDGE_FAMILY and link == index and 1 in entry and any(entry[2]):
            family = socket.AF_INET if len(entry[1]) == 4 else socket.AF_INET6
            found[entry[2].hex(":")] = socket.inet_ntop(family, entry[1])
    return found


def _route_body(wanted: Route) -> bytes:
    network, _, length = wanted.prefix.partition("/")
    family, packed = _packed(network)
    kind = _UNICAST if wanted.link else _UNREACHABLE
    scope = _LINK if wanted.link and not wanted.gateway else _UNIVERSE
    flags = _ONLINK if wanted.gateway and not wanted.checked else 0
    body = _ROUTE_INFO.pack(family, int(length), 0, 0, _OF_ANY_NUMBER, wanted.protocol, scope, kind, flags)
    body += number(15, wanted.table)
    body += attribute(1, packed) if int(length) else b""
    body += number(4, wanted.link) if wanted.link else b""
    body += number(_PRIORITY, wanted.metric) if wanted.metric else b""
    body += nested(_METRICS, number(_MTU, wanted.mtu)) if wanted.mtu else b""
    if not wanted.gateway:
        return body
    through, packed = _packed(wanted.gateway)
    if through == family:
        return body + attribute(5, packed)
    return body + attribute(18, struct.pack("=H", through) + packed)  # through a neighbour of the other family


def _read_route(family: int, length: int, table: int, protocol: int, found: dict[int, bytes]) -> Route:
    to = found.get(1, bytes(4 if family == socket.AF_INET else 16))
    gateway = ""
    if 5 in found:
        gateway = socket.inet_ntop(family, found[5])
    elif 18 in found:
        (through,) = struct.unpack_from("=H", found[18])
        gateway = socket.inet_ntop(through, found[18][2:])
    # the kernel shows unreachable IPv6 routes as being on the loopback link
    nowhere = family == socket.AF_INET6 and found.get(4) == struct.pack("=I", 1)
    link = 0 if nowhere else int.from_bytes(found.get(4, b""), "little")
    mtu = int.from_bytes(attributes(found.get(_METRICS, b"")).get(_MTU, b""), "little")
    return Route(f"{socket.inet_ntop(family, to)}/{length}", link, gateway, table, mtu, protocol=protocol)


def _packed(value: str) -> tuple[socket.AddressFamily, bytes]:
    family = socket.AF_INET6 if ":" in value else socket.AF_INET
    return family, socket.inet_pton(family, value)


def _hardware(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))
