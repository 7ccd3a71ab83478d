"""Accepts packets of public addresses from permitted nodes only, in the node's own namespace; drops all else.

Any known node may be a gateway and send packets of clients, but not with a public address as source. Answers come only
from nodes that may have endpoints of the address. Hosts outside reach only routed addresses through this namespace, and
only those answer through it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from tarmac.api.networking.names import INGRESS_LINK, NODE_PORTS
from tarmac.api.networking.ports import INGRESS_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, WORDS, both, chain, declaration, version

INGRESS_VNI: Final = 4095

_INNER: Final = (
    ("@th,224,16 0x0800", "@th,336,32", "@th,368,32"),
    ("@th,224,16 0x86dd", "@th,304,128", "@th,432,128"),
)
"""Offsets in the inner packet, behind UDP (8 bytes), VXLAN (8) and Ethernet (14): kind, source, destination."""

_TUNNELLED: Final = f"udp dport {INGRESS_PORT} notrack"
"""Each flow of clients has a port of its own in the tunnel: a flood of SYNs would fill the node's table."""


def ingress_admission(
    name: str,
    link: str,
    uplinks: str,
    peers: Iterable[str],
    served: Iterable[str],
    answerers: Iterable[tuple[str, str]],
    routed: Iterable[str] = (),
) -> Table:
    """Return the table of the node's namespace that accepts packets of the tunnel from permitted nodes only.

    `link` is the node's end of the link to its ingress namespace. Nodes in `peers` may send packets of clients to
    addresses in `served`; nodes in `answerers` may answer as one. Routers outside may send to addresses in `routed`.
    """
    match, declared, rules = f"udp dport {INGRESS_PORT} @th,96,24 {INGRESS_VNI}", "", list[str]()
    nodes, own, may_answer = sorted(set(peers)), sorted(set(served)), sorted(set(answerers))
    for family, (kind, source, destination) in zip(FAMILIES, _INNER, strict=True):
        here = [_number(each) for each in own if version(each) == family]
        if not here:
            continue
        declared += declaration("set", f"served{family}", destination, here, typing="typeof")
        declared += declaration("set", f"sources{family}", source, here, typing="typeof")
        for outer in FAMILIES:
            word = WORDS[outer]
            pairs = [
                f"{node} . {_number(address)}"
                for node, address in may_answer
                if (version(node), version(address)) == (outer, family)
            ]
            if pairs:
                declared += declaration(
                    "set", f"answerers{outer}{family}", f"{word} saddr . {source}", pairs, typing="typeof"
                )
                rules.append(f"{match} {kind} {word} saddr . {source} @answerers{outer}{family} accept")
            if any(version(each) == outer for each in nodes):
                rules.append(
                    f"{match} {kind} {word} saddr @peers{outer} {source} != @sources{family} "
                    f"{destination} @served{family} accept"
                )
    for outer in FAMILIES:
        declared += declaration(
            "set", f"peers{outer}", TYPES[outer], [each for each in nodes if version(each) == outer]
        )
    # Last: packets of all other nodes and hosts end here.
    rules.append(f"udp dport {INGRESS_PORT} drop")
    outside = sorted(set(routed))
    for family in FAMILIES:
        mine = [each for each in outside if version(each) == family]
        declared += declaration("set", f"routed{family}", TYPES[family], mine)
    return Table(
        "inet",
        name,
        declared
        + chain("tunnel", rules, "filter hook input priority 0")
        + chain("untracked", [*_untracked(link, uplinks), _TUNNELLED], "filter hook prerouting priority -300")
        + chain("untracked-own", [_TUNNELLED], "filter hook output priority -300")
        + chain("closed", _closed(link, uplinks), "filter hook forward priority 0"),
    )


@lru_cache(maxsize=1 << 13)
def _number(address: str) -> str:
    return f"{int(ip_address(address)):#x}"


def _untracked(link: str, uplinks: str) -> list[str]:
    """Return the rules that keep the rules of other programs from translating packets of clients outside."""
    into = f'iifname != {{ "{link}", "{uplinks}*" }}'
    # Answers to the node itself belong to connections that are tracked where they begin.
    back = f'iifname "{link}" fib daddr type != local IP saddr @routed# notrack'
    return [*both(f"{into} IP daddr @routed# notrack"), *both(back)]


def _closed(link: str, uplinks: str) -> list[str]:
    inside, doors = f'"{uplinks}*"', list(zip(WORDS.values(), NODE_PORTS, strict=True))
    return [
        # The kernel rejects foreign packets with its own address as the source for IPv4 only.
        f'oifname "{link}" ip6 saddr {INGRESS_LINK[1]} drop',
        f'oifname "{link}" iifname {inside} accept',
        *both(f'oifname "{link}" IP daddr @routed# accept'),
        *(f'oifname "{link}" {word} daddr {own} ct status dnat accept' for word, own in doors),
        f'oifname "{link}" drop',
        # Even if rules inside fail, no other public address gets out as a source: only answers to networks pass.
        f'iifname "{link}" oifname {inside} accept',
        *both(f'iifname "{link}" IP saddr @routed# accept'),
        *(f'iifname "{link}" {word} saddr {own} ct status dnat accept' for word, own in doors),
        f'iifname "{link}" drop',
    ]
