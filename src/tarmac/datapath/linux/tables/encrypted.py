"""Nodes of other cities, in the node's own namespace: packets of external services come from and go to them encrypted.

By no other link, whatever becomes of the routes that lead into the one that encrypts; and that link is for nothing
else: whoever is behind it is a node, and still has no business with other ports of this one.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.datapath.linux.links import EXTERNAL_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain, in_order, version


def encrypted(name: str, link: str, nodes: Iterable[str]) -> Table:
    """The table, given the link that encrypts and the nodes."""
    ours, known = f'"{link}"', set(nodes)
    incoming, outgoing = list[str](), list[str]()
    for family in FAMILIES:
        listed = ", ".join(in_order({node for node in known if version(node) == family}))
        if listed:
            word = WORDS[family]
            incoming.append(f"iifname != {ours} udp dport {EXTERNAL_PORT} {word} saddr {{ {listed} }} drop")
            outgoing.append(f"oifname != {ours} udp dport {EXTERNAL_PORT} {word} daddr {{ {listed} }} drop")
    incoming += [f"iifname {ours} udp dport {EXTERNAL_PORT} accept", f"iifname {ours} drop"]
    passing = [f"iifname {ours} drop", f"oifname {ours} drop"]
    return Table(
        "inet",
        name,
        chain("incoming", incoming, "filter hook input priority -1")
        + chain("outgoing", outgoing, "filter hook output priority 0")
        + chain("passing", passing, "filter hook forward priority -1"),
    )
