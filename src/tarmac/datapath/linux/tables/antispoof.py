"""Prevents spoofing: hardware and source addresses are checked on packets that arrive from a pod's link.

A source address must be one that the router would reach through the same link. Together with permanent neighbours on
both ends, no ARP or neighbour discovery message of a pod changes the path of other pods' packets. Router advertisements
and redirects of a pod are not forwarded. A guest with several links to the network does its own routing, and most
answer through the first link regardless of the one that was addressed: it may use its own addresses on all of them.

A link-local address must be the one derived from the hardware address. It is not routed, but every other one would
occupy a neighbour entry of the router, and the kernel has room for few in all networks together. DHCP messages of a
guest with its own kernel have no server to answer them, and are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tarmac.datapath.linux.naming import EGRESS, INGRESS, link_local
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import chain, declaration, version

NAME: Final = "tarmac-antispoof"
_DHCP: Final = "{ 67, 68, 546, 547 }"


class LinkEnd(NamedTuple):
    """The router's end of a pod's link, and its other end: a pod, or a guest that speaks Ethernet itself.

    `beside` are the addresses that the same guest has behind other links of the network.
    """

    link: str
    mac: str
    addresses: tuple[str, ...]
    guest: bool = False
    beside: tuple[str, ...] = ()


def antispoof(prefix: str, ends: Sequence[LinkEnd]) -> tuple[Table, Table]:
    """Return the tables for these ends. Exactly their links have names that start with `prefix`."""
    return _packets(prefix, ends), _resolution(prefix, ends)


def _packets(prefix: str, ends: Sequence[LinkEnd]) -> Table:
    known = [f'"{end.link}" . {end.mac}' for end in sorted(ends)]
    local = [f'"{end.link}" . {link_local(end.mac)}' for end in sorted(ends)]
    guests = [f'"{end.link}"' for end in sorted(ends) if end.guest]
    rules = [
        f'iifname "{prefix}*" iifname . ether saddr != @ends drop',
        f'iifname "{prefix}*" icmp type {{ redirect, router-advertisement }} drop',
        f'iifname "{prefix}*" icmpv6 type {{ nd-router-advert, nd-redirect }} drop',
        # Duplicate address detection has no source address yet.
        f'iifname "{prefix}*" ip6 saddr :: icmpv6 type nd-neighbor-solicit accept',
        f'iifname "{prefix}*" ip6 saddr fe80::/10 iifname . ip6 saddr != @local drop',
        f"iifname @guests udp dport {_DHCP} drop",
        "iifname . ip saddr @beside4 accept",
        "iifname . ip6 saddr @beside6 accept",
        # The latter two: servers and clients outside.
        f'iifname != {{ "lo", "{EGRESS}", "{INGRESS}" }} fib saddr . iif oif missing drop',
    ]
    declared = declaration("set", "ends", "ifname . ether_addr", known)
    declared += declaration("set", "local", "ifname . ipv6_addr", local)
    declared += declaration("set", "guests", "ifname", guests)
    for number in (4, 6):
        beside = [
            f'"{end.link}" . {each}' for end in sorted(ends) for each in sorted(end.beside) if version(each) == number
        ]
        declared += declaration("set", f"beside{number}", f"ifname . ipv{number}_addr", beside)
    return Table("inet", NAME, declared + chain("check", rules, "filter hook prerouting priority -300"))


def _resolution(prefix: str, ends: Sequence[LinkEnd]) -> Table:
    known = [
        f'"{end.link}" . {end.mac} . {address}'
        for end in sorted(ends)
        for address in (*end.addresses, *end.beside)
        if version(address) == 4
    ]
    declared = declaration("set", "ends", "ifname . ether_addr . ipv4_addr", known)
    rules = [f'iifname "{prefix}*" iifname . arp saddr ether . arp saddr ip != @ends drop']
    return Table("arp", NAME, declared + chain("check", rules, "filter hook input priority 0"))
