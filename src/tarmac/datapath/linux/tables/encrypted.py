"""Tunnels that must be encrypted, in the node's own namespace: their packets use the encrypted link or none.

They never use another link, regardless of the routes into the encrypted one; and that link carries nothing else: a peer
behind it is a node, and still has no access to other ports of this one.

Packets of external services and of public addresses are matched by destination node. Packets of instances are matched
by the number of their Network, since Networks share a port and differ in their requirements. In a Network that is
encrypted between Locations, all packets are encrypted except those to nodes known to be near: an unknown node is
closed, not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Final

from tarmac.api.networking.ports import EXTERNAL_PORT, INGRESS_PORT, TUNNEL_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.host import NETWORK_NUMBER
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain, in_order, version

MARK: Final = 0x7461726D
"""Mark of instances' packets that must use the link, for the policy rule that routes them there."""


def encrypted(name: str, link: str, port: int, nodes: Iterable[str]) -> Table:
    """Return the table of the tunnel at a port, given the encrypted link and the nodes."""
    ours, known = f'"{link}"', set(nodes)
    incoming, outgoing = list[str](), list[str]()
    for family in FAMILIES:
        listed = ", ".join(in_order({node for node in known if version(node) == family}))
        if listed:
            word = WORDS[family]
            incoming.append(f"iifname != {ours} udp dport {port} {word} saddr {{ {listed} }} drop")
            outgoing.append(f"oifname != {ours} udp dport {port} {word} daddr {{ {listed} }} drop")
    return Table("inet", name, _chains(ours, incoming, outgoing))


def instances(name: str, link: str, always: Set[int], between: Set[int], plain: Set[str]) -> Table:
    """Return the table of Networks. Packets of those in `between` go to the nodes in `plain` unencrypted."""
    ours = f'"{link}"'
    matches = [*_numbers(always), *(f"{each}{_except(plain)}" for each in _numbers(between))]
    incoming = [f"iifname != {ours} {each.replace('PEER', 'saddr')} drop" for each in matches]
    outgoing = [f"oifname != {ours} {each.replace('PEER', 'daddr')} drop" for each in matches]
    marking = [f"{each.replace('PEER', 'daddr')} meta mark set {MARK:#x}" for each in matches]
    # The packet is rerouted when its mark changes here. Other chains of this hook still see the previous link, so its
    # link is checked where it leaves.
    lead = chain("lead", marking, "route hook output priority -150")
    return Table("inet", name, lead + _chains(ours, incoming, outgoing))


def _numbers(numbers: Set[int]) -> Iterator[str]:
    if numbers:
        listed = ", ".join(str(number) for number in sorted(numbers))
        yield f"udp dport {TUNNEL_PORT} {NETWORK_NUMBER} {{ {listed} }}"


def _except(nodes: Set[str]) -> str:
    """Match all nodes but these. A match on one family alone would not match the other family."""
    family = 6 if any(":" in node for node in nodes) else 4  # tunnels of a node are of one family
    listed = ", ".join(in_order({node for node in nodes if version(node) == family}))
    return f" {WORDS[family]} PEER != {{ {listed} }}" if listed else ""


def _chains(ours: str, incoming: list[str], outgoing: list[str]) -> str:
    only = [
        f"iifname {ours} udp dport {{ {TUNNEL_PORT}, {EXTERNAL_PORT}, {INGRESS_PORT} }} accept",
        f"iifname {ours} drop",
    ]
    passing = [f"iifname {ours} drop", f"oifname {ours} drop"]
    return (
        chain("incoming", [*incoming, *only], "filter hook input priority -1")
        + chain("outgoing", outgoing, "filter hook postrouting priority 0")
        + chain("passing", passing, "filter hook forward priority -1")
    )
