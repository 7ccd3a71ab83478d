"""Nobody is anybody else: hardware and source addresses are checked where a pod's packets come out of its link.

A source address must be one that the router would reach through the same link. Together with neighbours that are
fixed on both ends, nothing a pod says by ARP or neighbour discovery changes where packets of others go. A pod that says
it is a router, or knows a better one, is not passed on to anybody.

A link-local address is the one that follows from the hardware address. It goes nowhere, but every other one would be a
neighbour that the router has to remember, and the kernel has room for few in all networks together. What a guest that
has a kernel of its own says by DHCP has nobody to hear it, and is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from tarmac.datapath.linux.naming import EGRESS, link_local
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import chain, declaration, version

NAME: Final = "tarmac-antispoof"
_DHCP: Final = "{ 67, 68, 546, 547 }"


class End(NamedTuple):
    """The router's end of a pod's link, and who is at the other end: a pod, or a guest that speaks Ethernet itself."""

    link: str
    mac: str
    addresses: tuple[str, ...]
    guest: bool = False


def antispoof(prefix: str, ends: Sequence[End]) -> tuple[Table, Table]:
    """The tables for these ends, all of whose links, and no others, have names that start with `prefix`."""
    return _packets(prefix, ends), _resolution(prefix, ends)


def _packets(prefix: str, ends: Sequence[End]) -> Table:
    known = [f'"{end.link}" . {end.mac}' for end in sorted(ends)]
    local = [f'"{end.link}" . {link_local(end.mac)}' for end in sorted(ends)]
    guests = [f'"{end.link}"' for end in sorted(ends) if end.guest]
    rules = [
        f'iifname "{prefix}*" iifname . ether saddr != @ends drop',
        f'iifname "{prefix}*" icmp type {{ redirect, router-advertisement }} drop',
        f'iifname "{prefix}*" icmpv6 type {{ nd-router-advert, nd-redirect }} drop',
        f'iifname "{prefix}*" ip6 saddr :: icmpv6 type nd-neighbor-solicit accept',
        f'iifname "{prefix}*" ip6 saddr fe80::/10 iifname . ip6 saddr != @local drop',
        f"iifname @guests udp dport {_DHCP} drop",
        f'iifname != {{ "lo", "{EGRESS}" }} fib saddr . iif oif missing drop',  # servers outside answer by the latter
    ]
    declared = declaration("set", "ends", "ifname . ether_addr", known)
    declared += declaration("set", "local", "ifname . ipv6_addr", local)
    declared += declaration("set", "guests", "ifname", guests)
    return Table("inet", NAME, declared + chain("check", rules, "filter hook prerouting priority -300"))


def _resolution(prefix: str, ends: Sequence[End]) -> Table:
    known = [
        f'"{end.link}" . {end.mac} . {address}'
        for end in sorted(ends)
        for address in end.addresses
        if version(address) == 4
    ]
    declared = declaration("set", "ends", "ifname . ether_addr . ipv4_addr", known)
    rules = [f'iifname "{prefix}*" iifname . arp saddr ether . arp saddr ip != @ends drop']
    return Table("arp", NAME, declared + chain("check", rules, "filter hook input priority 0"))
