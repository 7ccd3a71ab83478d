"""Rules that choose a routing table by a packet's mark, of both families alike; or by where it goes, of one."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tarmac.datapath.linux.netlink import (
    CREATE,
    EXCLUSIVE,
    EXISTS,
    GONE,
    Message,
    Netlink,
    attribute,
    attributes,
    number,
)
from tarmac.datapath.linux.routing import OURS

_NEWRULE, _DELRULE, _GETRULE = 32, 33, 34
_INFO: Final = struct.Struct("=BBBBBBBBI")  # family, to, from, tos, table, two that nobody uses, action, flags
_TO, _PRIORITY, _MARK, _TABLE, _MASK, _PROTOCOL, _IP_PROTOCOL, _PORTS = 1, 6, 10, 15, 16, 21, 22, 24
_TO_TABLE: Final = 1
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """Packets whose mark, under the mask, is this go by a table; without a mask, all do. Lower priorities are first.

    With an address only those of UDP that go to this port of it.
    """

    priority: int
    table: int
    mark: int = 0
    mask: int = 0
    to: str = ""
    port: int = 0


def ensure_rules(netlink: Netlink, wanted: Iterable[Rule]) -> None:
    """Have these rules, and no others of ours."""
    rules = set(wanted)
    messages: list[Message] = []
    for family in _FAMILIES:
        present = set(_rules(netlink, family))
        own = {each for each in rules if not each.to or (":" in each.to) == (family == socket.AF_INET6)}
        new, stale = sorted(own - present), sorted(present - own)
        messages += [Message(_NEWRULE, CREATE | EXCLUSIVE, _body(family, each), EXISTS) for each in new]
        messages += [Message(_DELRULE, 0, _body(family, each), GONE) for each in stale]
    netlink.request(messages)


def present_rules(netlink: Netlink) -> set[Rule]:
    """Ours, of both families."""
    return {rule for family in _FAMILIES for rule in _rules(netlink, family)}


def _body(family: int, rule: Rule) -> bytes:
    to = socket.inet_pton(family, rule.to) if rule.to else b""
    body = _INFO.pack(family, len(to) * 8, 0, 0, 0, 0, 0, _TO_TABLE, 0)
    if to:
        body += attribute(_TO, to) + attribute(_IP_PROTOCOL, bytes((socket.IPPROTO_UDP,)))
        body += attribute(_PORTS, struct.pack("=HH", rule.port, rule.port))
    body += number(_PRIORITY, rule.priority) + number(_TABLE, rule.table) + attribute(_PROTOCOL, bytes((OURS,)))
    return body + (number(_MARK, rule.mark) + number(_MASK, rule.mask) if rule.mask else b"")


def _rules(netlink: Netlink, family: int) -> Iterable[Rule]:
    for _, body in netlink.dump(_GETRULE, _INFO.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)):
        found = attributes(body, _INFO.size)
        if found.get(_PROTOCOL) == bytes((OURS,)):
            priority, table, mark, mask = (
                int.from_bytes(found.get(each, b""), "little") for each in (_PRIORITY, _TABLE, _MARK, _MASK)
            )
            to = socket.inet_ntop(family, found[_TO]) if _TO in found else ""
            port = int.from_bytes(found.get(_PORTS, b"")[:2], "little")
            yield Rule(priority, table, mark, mask, to, port)
