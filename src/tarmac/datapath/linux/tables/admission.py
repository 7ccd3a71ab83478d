"""Accepts packets of external services from permitted nodes only, in the node's own namespace; drops all else.

A node may use the transit addresses of its own pods. A gateway may answer for the servers outside that its addresses
lead to, towards the users of these addresses; and forward ICMP errors to them, which any router may have sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, NamedTuple

from tarmac.api.networking.ports import EXTERNAL_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain, declaration, version

EXTERNAL_VNI: Final = 4096
_MATCH: Final = f"udp dport {EXTERNAL_PORT} @th,96,24 {EXTERNAL_VNI}"


class _Inner(NamedTuple):
    """Offsets in the inner packet, behind UDP (8 bytes), VXLAN (8) and Ethernet (14)."""

    kind: str  # EtherType of the family
    error: str
    source: str
    destination: str


_INNER: Final = {
    4: _Inner("@th,224,16 0x0800", "@th,312,8 1", "@th,336,32", "@th,368,32"),
    6: _Inner("@th,224,16 0x86dd", "@th,288,8 58", "@th,304,128", "@th,432,128"),
}

Sender = tuple[str, str]
"""A node, and a transit address of its own pods; for a sync partner, the address that represents it."""

Answerer = tuple[str, str, str]
"""A gateway, a server outside, and a transit address that uses it."""


def admission(name: str, senders: Iterable[Sender], answerers: Iterable[Answerer]) -> Table:
    """Return the table, given the transit addresses of other nodes, and the gateways that answer."""
    senders, answerers = sorted(set(senders)), sorted(set(answerers))
    errors = sorted({(gateway, transit) for gateway, _, transit in answerers})
    declared, rules = "", list[str]()
    for outer in FAMILIES:
        for family, inner in _INNER.items():
            sender, match = f"{WORDS[outer]} saddr", f"{_MATCH} {inner.kind}"
            for kind, key, tuples, also in (
                ("nodes", f"{sender} . {inner.source}", senders, ""),
                ("gateways", f"{sender} . {inner.source} . {inner.destination}", answerers, ""),
                ("errors", f"{sender} . {inner.destination}", errors, f" {inner.error}"),
            ):
                chosen = [each for each in tuples if (version(each[0]), version(each[-1])) == (outer, family)]
                if chosen:
                    declared += declaration(
                        "set", f"{kind}{outer}{family}", key, map(_element, chosen), typing="typeof"
                    )
                    rules.append(f"{match}{also} {key} @{kind}{outer}{family} accept")
    # Last: packets of all other nodes and hosts end here.
    rules.append(f"udp dport {EXTERNAL_PORT} drop")
    return Table("inet", name, declared + chain("tunnel", rules, "filter hook input priority 0"))


def _element(parts: tuple[str, ...]) -> str:
    """Return an nft element. Addresses of the inner packet are numbers to nft."""
    return " . ".join((parts[0], *(f"{int(ip_address(each)):#x}" for each in parts[1:])))
