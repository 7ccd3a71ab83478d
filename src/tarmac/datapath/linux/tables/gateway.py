"""External services in a node's egress namespace: selection of the egress route, and the rules of a gateway.

Packets that a pod's node sends on are not tracked: the transit address determines the SourceIP, and so the current
owner. A gateway tracks every connection: its permission, its address, and that no packet leaves with an address that is
not live. Elements of `live` time out; the owner of an address renews them.

The guard is a table of its own: if the other tables are missing, still no packet with another address gets out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from math import gcd
from socket import AF_INET, AF_INET6, inet_pton
from typing import Final, NamedTuple

from tarmac.datapath.egress import Entrance, SourceAddress
from tarmac.datapath.linux.naming import LEG_PREFIX, OUTSIDE_PREFIX, TUNNEL
from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.setelements import SetName
from tarmac.datapath.linux.tables.forwarding import FIRST_PLACE, Size, choice, choice_name
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, TYPES, both, chain, declaration, version

NAME: Final = "tarmac-external"
GUARD: Final = "tarmac-external-guard"
TABLES: Final = (("inet", NAME), ("arp", NAME), ("inet", GUARD))

MAJOR: Final = 1
"""Major number of the HTB classes. Marks are their minor numbers."""

NUMBER_SHIFT: Final = 24
FIRST_OUTSIDE: Final = 0xF0
"""Route numbers, in the upper bits of packets' marks: gateways from 1, own links to the outside from here."""

SYNC_PORT: Final = 3780
"""UDP port for connection sharing between gateways."""

_LEG, _TUNNEL, _OUTSIDE = f'iifname "{LEG_PREFIX}*"', f'iifname "{TUNNEL}"', f'iifname "{OUTSIDE_PREFIX}*"'
_TO_OUTSIDE: Final = f'oifname "{OUTSIDE_PREFIX}*"'
_TO_PORT: Final = "meta l4proto . th dport"
_FOUR: Final = "{0} . {0} . inet_proto . inet_service"
_MAPS: Final = {
    "ids": "{0} : mark",
    "out": f"{_FOUR} : mark",
    "back": f"{_FOUR} : mark",
    "in": f"{_FOUR} : mark",
    "choose": f"{_FOUR} : verdict",
    "source": "mark : {0}",
}
_BY_TRANSIT: Final = ("began", "sent", "called")
_SETS: Final = {"legs": "ifname . {0}", "own": "{0}", "sources": "{0}", **dict.fromkeys(_BY_TRANSIT, "{0}")}
_COUNTING: Final = ("in", *_BY_TRANSIT)
COUNTED: Final = {f"{each}{family}": "map" if each in _MAPS else "set" for each in _COUNTING for family in FAMILIES}
"""Sets and maps with counters, and the kind of each.

`in` counts connections that the server began, `began` those of pods; `sent` and `called` count the bytes in those of
pods, and in those of the server. `out` has no counters, since metering reads all elements, and it may have very many.
"""
_PASSING: Final = "dynamic,timeout"


def gateway(
    legs: Mapping[str, tuple[str, int]],
    owners: Mapping[int, int],
    ways: Mapping[int, int],
    sources: Sequence[SourceAddress],
    partners: Iterable[str] = (),
) -> list[FilledTable]:
    """Return the tables.

    `legs` has own transit addresses with their leg and SourceIP's mark; `owners` and `ways`, by mark, the route numbers
    of the address's owner and of the own egress link; `sources` the addresses that this node may serve; and `partners`
    the addresses of the gateways that connections are shared with.
    """
    elements = {f"{name}{family}": dict[str, str]() for name in (*_MAPS, *_SETS) for family in FAMILIES}
    elements |= {"owners": marks(owners), "exits": marks(ways), "partners": dict.fromkeys(partners, "")}
    limited = (each for each in sources if each.out_rate or each.in_rate)
    elements["shape"] = {str(each.mark): f"{MAJOR}:{each.mark:x}" for each in limited}
    for transit, (leg, mark) in legs.items():
        family = version(transit)
        elements[f"legs{family}"][f'"{leg}" . {transit}'] = ""
        elements[f"own{family}"][transit] = ""
        elements[f"ids{family}"][transit] = str(mark)
    sizes = _filled(elements, sources)
    limits = {each.connections for each in sources if each.connections is not None}
    for limit in limits:
        elements[f"limited-{limit}"] = {str(each.mark): "" for each in sources if each.connections == limit}
    return [FilledTable("inet", NAME, _chains(sizes, sorted(limits)), elements), RESOLUTION_TABLE, GUARD_TABLE]


Marked = tuple[str, int]
"""A SourceIP and its mark."""


class LiveElement(NamedTuple):
    """An element of a set that keeps an address live: as text, as kernel key, and its duration."""

    text: str
    key: bytes
    milliseconds: int


def living(left: Mapping[Marked, float], table: str = NAME) -> dict[SetName, list[LiveElement]]:
    """Return the elements that keep addresses live for so many seconds: for packets, the guard, and ARP answers.

    `table` is the one that lets packets through.
    """
    sets: dict[SetName, list[LiveElement]] = {}
    for marked, seconds in left.items():
        lasts = max(1, int(seconds * 1000))
        for name, text, key in _keys(marked, table):
            sets.setdefault(name, []).append(LiveElement(text, key, lasts))
    return sets


@lru_cache(4096)
def _keys(marked: Marked, table: str) -> list[tuple[SetName, str, bytes]]:
    """Return the elements of one address. Cached, since they are renewed several times a second."""
    address, mark = marked
    family = version(address)
    packed = inet_pton(AF_INET6 if family == 6 else AF_INET, address)
    found = [
        (SetName("inet", table, "live"), str(mark), mark.to_bytes(4, sys.byteorder)),
        (SetName("inet", GUARD, f"live{family}"), address, packed),
    ]
    return [*found, (SetName("arp", NAME, "live"), address, packed)] if family == 4 else found


def live(left: Mapping[Marked, float], table: str = NAME) -> str:
    """Return the commands that keep addresses live for so many seconds."""
    return "".join(
        f"add element {' '.join(each)} {{ {', '.join(f'{own.text} timeout {own.milliseconds}ms' for own in of)} }}\n"
        for each, of in living(left, table).items()
    )


def marks(numbers: Mapping[int, int]) -> dict[str, str]:
    """Return the elements that map an address's mark to the mark of packets on a route."""
    return {str(mark): f"{number << NUMBER_SHIFT | mark:#x}" for mark, number in numbers.items()}


def _filled(elements: dict[str, dict[str, str]], sources: Iterable[SourceAddress]) -> list[Size]:
    """Add the rules of the addresses; return the sizes of choices among nodes."""
    sizes: set[Size] = set()
    for each in sources:
        family, mark = version(each.address), str(each.mark)
        elements[f"sources{family}"][each.address] = ""
        elements[f"source{family}"][mark] = each.address
        for way in each.exits:
            key = f"{way.transit} . {way.target} . {way.protocol.lower()} . {way.port}"
            elements[f"out{family}"][key] = mark
            elements[f"began{family}"][way.transit] = elements[f"sent{family}"][way.transit] = ""
        ports: dict[tuple[str, str, int], list[Entrance]] = {}
        for entrance in sorted(each.entrances):
            ports.setdefault((entrance.target, entrance.protocol.lower(), entrance.port), []).append(entrance)
        for (target, protocol, port), group in ports.items():
            key = f"{target} . {each.address} . {protocol} . {port}"
            places = _places(group)
            size = family, len(places), group[0].affinity
            sizes.add(size)
            elements[f"in{family}"][key] = mark
            elements[f"choose{family}"][key] = f"goto {choice_name(size)}"
            chosen = elements.setdefault(choice_name(size), {})
            chosen |= {f"{key} . {place}": transit for place, transit in enumerate(places, FIRST_PLACE)}
            for entrance in group:
                elements[f"called{family}"][entrance.transit] = ""
                elements[f"back{family}"][f"{entrance.transit} . {target} . {protocol} . {port}"] = mark
    return sorted(sizes)


def _places(group: Sequence[Entrance]) -> list[str]:
    """Return transit addresses, each as often as its weight in lowest terms."""
    weights = [max(1, each.weight) for each in group]
    common = reduce(gcd, weights)
    return [each.transit for each, weight in zip(group, weights, strict=True) for _ in range(weight // common)]


def _chains(sizes: Sequence[Size], limits: Sequence[int]) -> str:
    declared = declaration("map", "owners", "mark : mark") + declaration("map", "exits", "mark : mark")
    declared += declaration("map", "shape", "mark : classid")
    declared += declaration("set", "live", "mark", flags=_PASSING)
    declared += declaration("set", "partners", TYPES[6])
    for family in FAMILIES:
        named = {name: kind.format(TYPES[family]) for name, kind in (_MAPS | _SETS).items()}
        declared += "".join(
            declaration("map" if name in _MAPS else "set", f"{name}{family}", kind, counted=name in _COUNTING)
            for name, kind in named.items()
        )
    declared += "".join(choice(each, TYPES[each[0]]) for each in sizes)
    for limit in limits:
        declared += declaration("set", f"limited-{limit}", "mark")
        declared += declaration("set", f"count-{limit}", "mark", flags="dynamic")
    return declared + _STEADY + chain("refuse", _refusals(limits), "filter hook prerouting priority -99")


def _refusals(limits: Sequence[int]) -> list[str]:
    """Reject forbidden connections from inside.

    A reset for a packet other than a SYN could end a connection that another gateway serves; hosts outside get no
    answer.
    """
    over = [
        f"ct state new ct mark @limited-{each} add @count-{each} {{ ct mark ct count over {each} }}" for each in limits
    ]
    unknown = [f"{link} ct state new ct mark 0 goto refused" for link in (_LEG, _TUNNEL)]
    return (
        unknown
        + [f"{link} {rule} goto refused" for rule in over for link in (_LEG, _TUNNEL)]
        + [f"{_OUTSIDE} {rule} drop" for rule in over]
    )


_ALLOWED: Final = [
    *both(f"{CARRIED} ct mark set IP saddr . IP daddr . {_TO_PORT} map @out#"),
    *both("ct mark != 0 IP saddr @began#"),
    "ct mark != 0 return",
    # A connection that the server began through a gateway that is gone: recognised by its source port.
    *both("tcp flags & (syn | rst) == 0 ct mark set IP saddr . IP daddr . meta l4proto . th sport map @back#"),
]

_FROM_PARTNER: Final = f"{_TUNNEL} ip6 saddr @partners udp dport {SYNC_PORT}"

_STEADY: Final = "".join(
    [
        chain(
            "leaving",
            [
                *both("meta mark set IP saddr map @ids#"),
                "meta mark set meta mark map @owners",
                f"meta mark & {0xFF << NUMBER_SHIFT:#x} == 0 drop",  # the address has no owner now
                f"meta mark < {FIRST_OUTSIDE << NUMBER_SHIFT:#x} notrack",
            ],
        ),
        chain(
            "first",
            [
                # With source routing a sender could choose a way past the rules.
                "ip option lsrr exists drop",
                "ip option ssrr exists drop",
                "exthdr rt exists drop",
                *both(f"{_LEG} iifname . IP saddr @legs# goto leaving"),
                # Any other source address is forged: it could be the transit address of another service.
                f"{_LEG} drop",
                *both(f"{_TUNNEL} IP daddr @own# notrack"),
                f"{_FROM_PARTNER} notrack",
                # Our own addresses never come in from outside: such packets are forged.
                *both(f"{_OUTSIDE} IP saddr @sources# drop"),
            ],
            "filter hook prerouting priority -300",
        ),
        chain("allowed", _ALLOWED),
        chain(
            "refused",
            [
                "tcp flags & (syn | ack | rst) == syn reject with tcp reset",
                "meta l4proto tcp drop",
                "reject with icmpx type admin-prohibited",
            ],
        ),
        chain(
            "marking",
            [
                *(f"{link} ct state new ct mark 0 jump allowed" for link in (_LEG, _TUNNEL)),
                *both(
                    f"{_OUTSIDE} ct state new ct mark 0 {CARRIED} ct mark set IP saddr . IP daddr . {_TO_PORT} map @in#"
                ),
                f"{_TUNNEL} ct mark != 0 meta mark set ct mark map @exits",
            ],
            "filter hook prerouting priority -150",
        ),
        chain(
            "translate",
            both(f"{_OUTSIDE} ct mark != 0 {CARRIED} IP saddr . IP daddr . {_TO_PORT} vmap @choose#"),
            "nat hook prerouting priority -100",
        ),
        chain(
            "passing",
            [
                f'ct state untracked {_LEG} oifname "{TUNNEL}" accept',
                f'ct state untracked {_TUNNEL} oifname "{LEG_PREFIX}*" accept',
                # Without tracking there is no translation: the packet would leave with a transit address.
                "ct state { untracked, invalid } drop",
                # The elements time out with the lease: an agent that hangs or is killed stops serving by itself.
                "ct mark != @live drop",
                *both("ct original IP saddr @sent#"),
                *both("ct reply IP saddr @called#"),
                f"{_TO_OUTSIDE} accept",
                f"{_OUTSIDE} accept",
                "drop",
            ],
            "filter hook forward priority 0",
        ),
        chain(
            "inside",
            [
                "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, packet-too-big } accept",
                f"{_FROM_PARTNER} accept",
                "drop",
            ],
            "filter hook input priority 0",
        ),
        # Connection sharing itself must not be tracked and shared.
        chain("sharing", [f"ip6 daddr @partners udp dport {SYNC_PORT} notrack"], "filter hook output priority -300"),
        # ICMP errors of the gateway about a connection leave on the same route as the connection.
        chain(
            "errors",
            [f"{_TO_OUTSIDE} ct mark != 0 meta mark set ct mark map @exits"],
            "route hook output priority -150",
        ),
        chain("shape", ["meta priority set ct mark map @shape"], "filter hook postrouting priority -150"),
        chain("mask", both(f"{_TO_OUTSIDE} snat IP to ct mark map @source#"), "nat hook postrouting priority 100"),
    ]
)

RESOLUTION_TABLE: Final = FilledTable(
    "arp",
    NAME,
    declaration("set", "live", "ipv4_addr", flags=_PASSING)
    + chain("output", ["arp saddr ip != @live drop"], "filter hook output priority 0"),  # requests announce, too
    {},
)

GUARD_TABLE: Final = FilledTable(
    "inet",
    GUARD,
    "".join(declaration("set", f"live{family}", TYPES[family], flags=_PASSING) for family in FAMILIES)
    # Behind the translation, in a table of its own: it holds even if the other tables are gone.
    + chain("guard", both(f"{_TO_OUTSIDE} IP saddr != @live# drop"), "filter hook postrouting priority 300"),
    {},
)
