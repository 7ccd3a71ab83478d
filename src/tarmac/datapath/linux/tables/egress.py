"""What leaves a network for the world, or comes from there: only answers come in, and all that goes out is masked."""

from __future__ import annotations

from typing import Final

from tarmac.datapath.linux.links import VXLAN_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import chain

NAME: Final = "tarmac-egress"


def egress(uplink: str, internet: bool) -> Table:
    """The table of a router namespace whose way out is the link `uplink`."""
    rules = [
        f'iifname "{uplink}" ct state != {{ established, related }} drop',
        f'oifname "{uplink}" udp dport {VXLAN_PORT} drop',  # packets for a tunnel are made by nodes, not by pods
    ]
    if not internet:  # services that the platform offers outside stay in reach
        rules.append(f'oifname "{uplink}" ct state new ct status & dnat == 0 reject with icmpx type admin-prohibited')
    return Table(
        "inet",
        NAME,
        chain("forward", rules, "filter hook forward priority 0")
        + chain("mask", [f'oifname "{uplink}" masquerade'], "nat hook postrouting priority 100"),
    )
