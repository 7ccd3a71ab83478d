"""External services in a router namespace: permitted egress of pods, and endpoints for connections from the server.

A pod dials an address that is unreachable. If permitted, its connection is marked, its destination becomes the server
and its source, on the link `egress`, a transit address; all packets of a marked connection use that link and no other.
If not, `egress` rejects it. Unsolicited packets on that link are for open ports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tarmac.datapath.egress import Arrival, Departure
from tarmac.datapath.linux.naming import EGRESS, END_PREFIX, UPLINK
from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, TYPES, WORDS, both, chain, declaration, version

NAME: Final = "tarmac-external"
INWARD: Final = 0x10000
"""The mark of connections that came from outside. Lower values are the numbers of transit addresses."""

ROUTED: Final = 1
"""The mark of packets that leave through the link `egress`."""

FIRST_PLACE: Final = 256
"""First number for choosing one of several endpoints; outside the range of routing marks."""

_POD, _EGRESS = f'iifname "{END_PREFIX}*"', f'iifname "{EGRESS}"'
_TO_PORT: Final = "meta l4proto . th dport"
_OURS: Final = "ct mark & 0x1ffff != 0"
"""Connections of external services; those to public addresses have a higher mark."""


def forwarding(departures: Sequence[Departure], arrivals: Sequence[Arrival], numbers: Mapping[str, int]) -> FilledTable:
    """Return the table. `numbers` are those of transit addresses."""
    sizes, chosen = _chosen(arrivals)
    elements = {f"{name}{family}": dict[str, str]() for name in _TYPES for family in FAMILIES} | chosen
    for each in departures:
        family, at = version(each.dialled), f"{each.dialled} . {each.protocol.lower()} . {each.port}"
        elements[f"dial{family}"][f"{each.pod} . {at}"] = str(numbers[each.transit])
        elements[f"target{family}"][at] = f"{each.target} . {each.target_port}"
    for transit, number in numbers.items():
        elements[f"transit{version(transit)}"][str(number)] = transit
    declared = [_declared(family) for family in FAMILIES] + [
        choice(each, f"{TYPES[each[0]]} . inet_service") for each in sizes
    ]
    return FilledTable("inet", NAME, "".join(declared) + _CHAINS, elements)


_TYPES: Final = {
    "dial": "{0} . {0} . inet_proto . inet_service : mark",
    "target": "{0} . inet_proto . inet_service : {0} . inet_service",
    "transit": "mark : {0}",
    "arrive": "{0} . {0} . inet_proto . inet_service : verdict",
}

Size = tuple[int, int, bool]
"""Size of a choice: the family, the number of options, and True if the client's port does not count."""


def _declared(family: int) -> str:
    return "".join(declaration("map", f"{name}{family}", kind.format(TYPES[family])) for name, kind in _TYPES.items())


def _chosen(arrivals: Iterable[Arrival]) -> tuple[list[Size], dict[str, dict[str, str]]]:
    """Number the endpoints of each open port, so that a hash of the client selects one."""
    ports: dict[str, list[Arrival]] = {}
    for each in sorted(arrivals):
        ports.setdefault(f"{each.target} . {each.transit} . {each.protocol.lower()} . {each.port}", []).append(each)
    elements: dict[str, dict[str, str]] = {}
    sizes: set[Size] = set()
    for key, group in ports.items():
        size = version(group[0].transit), len(group), group[0].affinity
        sizes.add(size)
        elements.setdefault(f"arrive{size[0]}", {})[key] = f"goto {choice_name(size)}"
        places = elements.setdefault(choice_name(size), {})
        for place, (address, port) in enumerate((each.endpoint for each in group), FIRST_PLACE):
            places[f"{key} . {place}"] = f"{address} . {port}"
    return sorted(sizes), elements


def choice_name(size: Size) -> str:
    """Return the name of a chain and its map."""
    family, number, affinity = size
    return f"choice{family}-{number}{'-client' if affinity else ''}"


def choice(size: Size, leads_to: str) -> str:
    """Return the chain, and its map from client, server, port and a number that is a hash of the client.

    The number is in the packet's mark for a moment: nft has no room for the hash in the key of an IPv6 map. The hash is
    the same on all gateways, so it survives a change of owner.
    """
    family, number, affinity = size
    name, word = choice_name(size), WORDS[family]
    client = f"{word} saddr" + ("" if affinity else " . th sport")
    declared = declaration(
        "map", name, f"{TYPES[family]} . {TYPES[family]} . inet_proto . inet_service . mark : {leads_to}"
    )
    return declared + chain(
        name,
        [
            f"meta mark set jhash {client} mod {number} seed 0x7461726d offset {FIRST_PLACE}",
            f"{CARRIED} dnat {word} to {word} saddr . {word} daddr . {_TO_PORT} . meta mark map @{name}",
        ],
    )


_SYN: Final = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu"
_CHAINS: Final = "".join(
    [
        chain(
            "marking",
            [
                *both(f"{_POD} ct state new {CARRIED} ct mark set IP saddr . IP daddr . {_TO_PORT} map @dial#"),
                f"{_EGRESS} ct state new ct mark set {INWARD:#x}",
                f"{_POD} {_OURS} meta mark set {ROUTED}",
            ],
            "filter hook prerouting priority -150",
        ),
        chain(
            "translate",
            [
                *both(f"{_POD} {_OURS} {CARRIED} dnat IP to IP daddr . {_TO_PORT} map @target#"),
                *both(f"{_EGRESS} {CARRIED} IP saddr . IP daddr . {_TO_PORT} vmap @arrive#"),
            ],
            "nat hook prerouting priority -100",
        ),
        chain(
            "guard",
            [
                # A permitted connection never leaves by the uplink, where it would have the node's address.
                f'{_OURS} oifname != "{EGRESS}" oifname != "{END_PREFIX}*" drop',
                # Without a mark there is no transit address, and no permission.
                f'oifname "{EGRESS}" ct mark 0 drop',
                f"{_EGRESS} ct state invalid drop",
                f"{_EGRESS} ct state new ct status & dnat == 0 drop",
                f'oifname "{EGRESS}" {_SYN}',
                f"{_EGRESS} {_SYN}",
            ],
            "filter hook forward priority -1",
        ),
        # ICMP errors of the router about a connection would otherwise leave through the uplink, with the node's
        # address.
        chain("own", [f'oifname "{UPLINK}" {_OURS} meta mark set {ROUTED}'], "route hook output priority -150"),
        chain(
            "mask", both(f'oifname "{EGRESS}" snat IP to ct mark map @transit#'), "nat hook postrouting priority 100"
        ),
    ]
)
