"""Accepts packets of public addresses from permitted nodes only, in the node's own namespace; drops all else.

Any known node may be a gateway and send packets of clients, but not with a public address as source. Answers come only
from nodes that may have endpoints of the address.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from tarmac.api.networking.ports import INGRESS_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, WORDS, chain, declaration, version

INGRESS_VNI: Final = 4095

_INNER: Final = (
    ("@th,224,16 0x0800", "@th,336,32", "@th,368,32"),
    ("@th,224,16 0x86dd", "@th,304,128", "@th,432,128"),
)
"""Offsets in the inner packet, behind UDP (8 bytes), VXLAN (8) and Ethernet (14): kind, source, destination."""


def ingress_admission(
    name: str,
    link: str,
    uplinks: str,
    peers: Iterable[str],
    served: Iterable[str],
    answerers: Iterable[tuple[str, str]],
) -> Table:
    """Return the table of the node's namespace that accepts packets of the tunnel from permitted nodes only.

    `link` is the node's end of the link to its ingress namespace. Nodes in `peers` may send packets of clients to
    addresses in `served`; nodes in `answerers` may answer as one.
    """
    match, declared, rules = f"udp dport {INGRESS_PORT} @th,96,24 {INGRESS_VNI}", "", list[str]()
    nodes, own, may_answer = sorted(set(peers)), sorted(set(served)), sorted(set(answerers))
    for family, (kind, source, destination) in zip(FAMILIES, _INNER, strict=True):
        here = [f"{int(ip_address(each)):#x}" for each in own if version(each) == family]
        if not here:
            continue
        declared += declaration("set", f"served{family}", destination, here, typing="typeof")
        declared += declaration("set", f"sources{family}", source, here, typing="typeof")
        for outer in FAMILIES:
            word = WORDS[outer]
            pairs = [
                f"{node} . {int(ip_address(address)):#x}"
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
    # Even if rules inside fail, no public address gets out as a source: only answers to networks pass.
    closed = [f'iifname "{link}" oifname != "{uplinks}*" drop']
    return Table(
        "inet",
        name,
        declared
        + chain("tunnel", rules, "filter hook input priority 0")
        + chain("closed", closed, "filter hook forward priority 0"),
    )
