"""What leaves a network for the world, or comes from there. All that goes out is masked.

What comes in is answers, and what was sent to somebody in here: connections to services, which the node begins, and to
the node's ports, which it lets through. Nothing goes to the addresses that stand for nodes but answers.
"""

from __future__ import annotations

from typing import Final

from tarmac.datapath.linux.links import VXLAN_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain
from tarmac.datapath.marks import NODES

NAME: Final = "tarmac-egress"


def egress(uplink: str, internet: bool) -> Table:
    """The table of a router namespace whose way out is the link `uplink`."""
    rules = [
        f'iifname "{uplink}" ct state != {{ established, related }} ct status & dnat == 0 drop',
        f'oifname "{uplink}" udp dport {VXLAN_PORT} drop',  # packets for a tunnel are made by nodes, not by pods
    ]
    for family, nodes in zip(FAMILIES, NODES, strict=True):
        rules.append(f'oifname "{uplink}" ct state new {WORDS[family]} daddr {nodes} reject')
    if not internet:  # services that the platform offers outside stay in reach
        rules.append(f'oifname "{uplink}" ct state new ct status & dnat == 0 reject with icmpx type admin-prohibited')
    return Table(
        "inet",
        NAME,
        chain("forward", rules, "filter hook forward priority 0")
        + chain("mask", [f'oifname "{uplink}" masquerade'], "nat hook postrouting priority 100"),
    )
