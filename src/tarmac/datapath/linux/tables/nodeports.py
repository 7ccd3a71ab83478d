"""Node ports in the node's own namespace: every address of the node leads to the ingress namespace.

There a node port is a port of an address that stands for any node, and is treated as a public address: the client keeps
its own, and endpoints of other nodes are reached through the tunnel. Answers are translated back here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.api.networking.names import NODE_PORTS
from tarmac.datapath.ingress import OpenPort
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, WORDS, chain, declaration, version

_LOOPBACK: Final = {4: "127.0.0.0/8", 6: "::1"}


def node_ports(name: str, doors: Iterable[tuple[str, OpenPort]]) -> Table:
    """Return the table. `doors` are ports, and the address that they are translated to, of either family."""
    body, lead, open_ports = "", list[str](), list(doors)
    for family, to in zip(FAMILIES, NODE_PORTS, strict=True):
        mine = sorted(f"{port.protocol.lower()} . {port.port}" for at, port in open_ports if version(at) == family)
        body += declaration("set", f"doors{family}", "inet_proto . inet_service", mine)
        word = WORDS[family]
        # Packets of the loopback address cannot leave the node's namespace.
        own = f"fib daddr type local {word} daddr != {_LOOPBACK[family]}"
        lead.append(f"{own} {CARRIED} meta l4proto . th dport @doors{family} dnat {word} to {to}")
    for hook in ("prerouting", "output"):
        body += chain(f"lead-{hook}", lead, f"nat hook {hook} priority -100")
    return Table("inet", name, body)
