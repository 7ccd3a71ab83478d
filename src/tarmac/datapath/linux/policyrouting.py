"""Policy routing rules that select a table by a packet's mark, for both families, or by an address, for one."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tarmac.datapath.linux.netlink import (
    CREATE,
    EXCLUSIVE,
    EXISTS,
    GONE,
    Netlink,
    NetlinkMessage,
    attribute,
    attributes,
    number,
)
from tarmac.datapath.linux.routing import OURS

_NEWRULE, _DELRULE, _GETRULE = 32, 33, 34
_INFO: Final = struct.Struct("=BBBBBBBBI")  # family, to, from, tos, table, two unused, action, flags
_TO, _FROM, _PRIORITY, _MARK, _TABLE, _MASK, _PROTOCOL, _IP_PROTOCOL, _PORTS = 1, 2, 6, 10, 15, 16, 21, 22, 24
_TO_TABLE: Final = 1
_OWN: Final = 255  # the routing table of the namespace's own addresses
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True, order=True)
class RoutingRule:
    """Packets with this mark, under the mask, use the table; without a mask, all do. Lower priorities come first.

    With an address in `to` only UDP packets to that address and port, with one in `source` only packets from it.
    """

    priority: int
    table: int
    mark: int = 0
    mask: int = 0
    to: str = ""
    port: int = 0
    source: str = ""

    def is_of(self, family: int) -> bool:
        """Return True if the rule applies to packets of this family."""
        address = self.to or self.source
        return not address or (":" in address) == (family == socket.AF_INET6)


def ensure_rules(netlink: Netlink, wanted: Iterable[RoutingRule]) -> None:
    """Make exactly these rules exist, among ours."""
    netlink.request(list(_changes(netlink, set(wanted))))


def place_local(netlink: Netlink, priority: int) -> None:
    """Give the rule for the namespace's own addresses another priority than 0, so that marked packets can pass it by.

    For namespaces in which all rules are ours.
    """
    for family in _FAMILIES:
        head = _INFO.pack(family, 0, 0, 0, 0, 0, 0, _TO_TABLE, 0)
        found = [attributes(body, _INFO.size) for _, body in netlink.dump(_GETRULE, head)]
        first = any(not int.from_bytes(each.get(_PRIORITY, b""), "little") for each in found)
        own = head + number(_TABLE, _OWN)
        # The new one first: without either, the namespace would not know its own addresses.
        netlink.request([NetlinkMessage(_NEWRULE, CREATE | EXCLUSIVE, own + number(_PRIORITY, priority), EXISTS)])
        # Only if it is there: a deletion without a priority would find the new one.
        netlink.request([NetlinkMessage(_DELRULE, 0, own, GONE)] if first else [])


def has_rules(netlink: Netlink, wanted: Iterable[RoutingRule]) -> bool:
    """Return True if exactly these rules of ours exist, in each family that they apply to."""
    return next(_changes(netlink, set(wanted)), None) is None


def _changes(netlink: Netlink, wanted: set[RoutingRule]) -> Iterator[NetlinkMessage]:
    for family in _FAMILIES:
        present = set(_rules(netlink, family))
        own = {each for each in wanted if each.is_of(family)}
        # New rules before old ones go: no packet meets a moment without either.
        for each in sorted(own - present):
            yield NetlinkMessage(_NEWRULE, CREATE | EXCLUSIVE, _body(family, each), EXISTS)
        for each in sorted(present - own):
            yield NetlinkMessage(_DELRULE, 0, _body(family, each), GONE)


def present_rules(netlink: Netlink) -> set[RoutingRule]:
    """Return our rules of both families."""
    return {rule for family in _FAMILIES for rule in _rules(netlink, family)}


def _body(family: int, rule: RoutingRule) -> bytes:
    to = socket.inet_pton(family, rule.to) if rule.to else b""
    source = socket.inet_pton(family, rule.source) if rule.source else b""
    body = _INFO.pack(family, len(to) * 8, len(source) * 8, 0, 0, 0, 0, _TO_TABLE, 0)
    body += attribute(_FROM, source) if source else b""
    if to:
        body += attribute(_TO, to) + attribute(_IP_PROTOCOL, bytes((socket.IPPROTO_UDP,)))
        body += attribute(_PORTS, struct.pack("=HH", rule.port, rule.port))
    body += number(_PRIORITY, rule.priority) + number(_TABLE, rule.table) + attribute(_PROTOCOL, bytes((OURS,)))
    return body + (number(_MARK, rule.mark) + number(_MASK, rule.mask) if rule.mask else b"")


def _rules(netlink: Netlink, family: int) -> Iterable[RoutingRule]:
    for _, body in netlink.dump(_GETRULE, _INFO.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        found = attributes(body, _INFO.size)
        if found.get(_PROTOCOL) == bytes((OURS,)):
            priority, table, mark, mask = (
                int.from_bytes(found.get(each, b""), "little") for each in (_PRIORITY, _TABLE, _MARK, _MASK)
            )
            to = socket.inet_ntop(family, found[_TO]) if _TO in found else ""
            port = int.from_bytes(found.get(_PORTS, b"")[:2], "little")
            source = socket.inet_ntop(family, found[_FROM]) if _FROM in found else ""
            yield RoutingRule(priority, table, mark, mask, to, port, source)
