"""Filters traffic between a network and the world, and masquerades everything that leaves.

Incoming are answers, and connections to services, which the node begins, and to the node's ports, which it lets
through. Only answers go to the addresses that represent nodes.

The addresses that pods dial for servers outside the platform are unreachable. Permitted connections have been
translated before; all other ones are rejected at once: an unreachable route alone would let a connection hang until it
retries.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.networking.names import DIALLED
from tarmac.api.networking.ports import NODES_OWN
from tarmac.datapath.linux.naming import END_PREFIX
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain
from tarmac.decide.reach.marks import NODES

NAME: Final = "tarmac-egress"
_PORTS: Final = ", ".join(map(str, NODES_OWN))
_BEHIND_TRANSLATION: Final = "filter hook prerouting priority -99"


def egress(uplink: str, internet: bool) -> Table:
    """Return the table of a router namespace with the uplink `uplink`."""
    rules = [
        f'iifname "{uplink}" ct state != {{ established, related }} ct status & dnat == 0 drop',
        # Only nodes, not pods, send packets of tunnels and agents.
        f'oifname "{uplink}" udp dport {{ {_PORTS} }} drop',
    ]
    for family, nodes in zip(FAMILIES, NODES, strict=True):
        rules.append(f'oifname "{uplink}" ct state new {WORDS[family]} daddr {nodes} reject')
    if not internet:  # the platform's services outside stay reachable
        rules.append(f'oifname "{uplink}" ct state new ct status & dnat == 0 reject with icmpx type admin-prohibited')
    refused = [f"{WORDS[family]} daddr {each} jump refused" for family, each in zip(FAMILIES, DIALLED, strict=True)]
    return Table(
        "inet",
        NAME,
        chain("refused", ["meta l4proto tcp reject with tcp reset", "reject with icmpx type port-unreachable"])
        + chain("undialled", [f'iifname "{END_PREFIX}*" {each}' for each in refused], _BEHIND_TRANSLATION)
        + chain("forward", rules, "filter hook forward priority 0")
        + chain("mask", [f'oifname "{uplink}" masquerade'], "nat hook postrouting priority 100"),
    )
