"""The node's own namespace, where the uplinks of all networks end and tunnels arrive.

Networks are isolated there. Hosts outside and other networks reach into one only through the node's ports: their
packets are translated to the router itself, so a service that refers to an address of another network is no way in.
Packets of our tunnels are accepted only from nodes in our networks: any other sender would be inside the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

from tarmac.api.networking.ports import TUNNEL_PORT
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, WORDS, chain, in_order, version

NETWORK_NUMBER: Final = "@th,96,24"  # behind the headers of UDP (8 bytes) and VXLAN (the first 4 of 8)


def host(name: str, uplinks: str, ranges: tuple[str, str], numbers: Set[int], nodes: Iterable[str]) -> Table:
    """Return the table, given the prefix of uplink names, their addresses, our networks' numbers and other nodes."""
    ours, (four, six) = f'"{uplinks}*"', ranges
    forward = [
        f"oifname {ours} ct state established,related accept",
        f"oifname {ours} ct status dnat ip daddr {four} accept",
        f"oifname {ours} ct status dnat ip6 daddr {six} accept",
        # Only answers and translated connections pass: no other network or host reaches in.
        f"oifname {ours} drop",
        f"iifname {ours} ip saddr != {four} drop",  # even if rules inside fail, no address of theirs gets out
        f"iifname {ours} ip6 saddr != {six} drop",
    ]
    mask = [f"ip saddr {four} oifname != {ours} masquerade", f"ip6 saddr {six} oifname != {ours} masquerade"]
    return Table(
        "inet",
        name,
        chain("forward", forward, "filter hook forward priority 0")
        + chain("mask", mask, "nat hook postrouting priority 100")
        + chain("tunnels", _tunnels(numbers, tuple(nodes)), "filter hook input priority 0"),
    )


def _tunnels(numbers: Set[int], nodes: tuple[str, ...]) -> list[str]:
    if not numbers:
        return []
    listed = ", ".join(str(number) for number in sorted(numbers))
    match = f"udp dport {TUNNEL_PORT} {NETWORK_NUMBER} {{ {listed} }}"
    rules: list[str] = []
    for family in FAMILIES:
        known = ", ".join(in_order({node for node in nodes if version(node) == family}))
        rules += [f"{match} {WORDS[family]} saddr {{ {known} }} accept"] if known else []
    # Last: packets of any other sender would be inside the network.
    return [*rules, f"{match} drop"]
