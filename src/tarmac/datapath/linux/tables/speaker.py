"""Rules about BGP in the node's own namespace: only its routers reach its speaker, and no pod speaks in its name.

Packets of pods leave with the node's address. Without these rules a pod could open the session that a router expects
from the node, and announce what it wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, both, chain, declaration, version
from tarmac.datapath.speaker import BgpSession

_BGP: Final = 179
_BFD: Final = "udp dport { 3784, 4784 }"


def speaker(name: str, uplinks: str, sessions: Sequence[BgpSession]) -> Table:
    """Return the table, given the prefix of uplink names."""
    declared = ""
    for family in FAMILIES:
        mine = [each for each in sessions if version(each.address) == family]
        routers = sorted({each.address for each in mine})
        ports = sorted({f"{each.address} . {each.port}" for each in mine})
        declared += declaration("set", f"routers{family}", TYPES[family], routers)
        declared += declaration("set", f"sessions{family}", f"{TYPES[family]} . inet_service", ports)
    coming = [*both(f"tcp dport {_BGP} IP saddr @routers# accept"), f"tcp dport {_BGP} drop"]
    if any(each.bfd for each in sessions):
        coming += [*both(f"{_BFD} IP saddr @routers# accept"), f"{_BFD} drop"]
    ours = f'iifname "{uplinks}*"'
    passing = [*both(f"{ours} IP daddr . tcp dport @sessions# drop"), *both(f"{ours} IP daddr @routers# {_BFD} drop")]
    body = chain("coming", coming, "filter hook input priority 0")
    body += chain("passing", passing, "filter hook forward priority 0")
    return Table("inet", name, declared + body)
