"""What leaves a network for the world, or comes from there: only answers come in, and all that goes out is masked."""

from __future__ import annotations

from typing import Final

from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import chain

NAME: Final = "tarmac-egress"


def egress(uplink: str, internet: bool) -> Table:
    """The table of a router namespace whose way out is the link `uplink`."""
    rules = [f'iifname "{uplink}" ct state != {{ established, related }} drop']
    if not internet:  # services that the platform offers outside stay in reach
        rules.append(f'oifname "{uplink}" ct state new ct status & dnat == 0 reject with icmpx type admin-prohibited')
    return Table(
        "inet",
        NAME,
        chain("forward", rules, "filter hook forward priority 0")
        + chain("mask", [f'oifname "{uplink}" masquerade'], "nat hook postrouting priority 100"),
    )


def host_egress(name: str, uplinks: str, ranges: tuple[str, str]) -> Table:
    """The table of the node's own namespace, where the uplinks of all networks end: they do not meet there."""
    ours = f'"{uplinks}*"'
    forward = [
        f"iifname {ours} oifname {ours} drop",
        f"oifname {ours} ct state != {{ established, related }} drop",
    ]
    four, six = ranges
    mask = [f"ip saddr {four} oifname != {ours} masquerade", f"ip6 saddr {six} oifname != {ours} masquerade"]
    return Table(
        "inet",
        name,
        chain("forward", forward, "filter hook forward priority 0")
        + chain("mask", mask, "nat hook postrouting priority 100"),
    )
