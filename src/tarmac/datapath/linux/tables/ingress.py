"""Public addresses in a node's ingress namespace: the choice of a node, and the path of answers.

Nothing is translated here except a source that would be taken for an instance. Connections carry the choice as mark:
its lower part is a node or the link to a Network, the upper byte the gateway that the client's last packet came by.
What a packet's mark means is decided again in each namespace.

A SYN from outside leaves no state: it goes by the hash alone, and the first ACK makes the entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tarmac.api.networking.names import INGRESS_LINK, NODE_MARKS, UPLINKS
from tarmac.datapath.linux.naming import INGRESS_LEG_PREFIX, NODE_LINK, OUTSIDE_PREFIX, TUNNEL
from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables import clientlists
from tarmac.datapath.linux.tables.clientlists import ClientLists
from tarmac.datapath.linux.tables.gateway import GUARD_TABLE, RESOLUTION_TABLE
from tarmac.datapath.linux.tables.ingresslimits import limit_sets, limiting
from tarmac.datapath.linux.tables.slots import FIRST_SLOT, SLOTS, SlotTables
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, TYPES, WORDS, both, chain, declaration, version
from tarmac.decide.reach.evaluation import collapsed, written

NAME: Final = "tarmac-in"

NODE, LEG, SELF, EXIT = 0x10000, 0x20000, 0x30000, 0x40000
"""Kinds of marks: a node behind the tunnel, a link to a Network, this node itself, a link outside."""
KIND: Final = 0x70000
NUMBER: Final = 0xFFFF
BACK: Final = 0x800000
"""The mark of answers to the gateway whose number is in the upper byte."""
BACK_SHIFT: Final = 24
VIRTUAL: Final = 0x8000
"""Exits from here on are those of addresses with a dedicated link."""

_SEED: Final = 0x7461726D
_CHOSEN, _GATEWAY = KIND | NUMBER, 0xFF << BACK_SHIFT
_ROUND: Final = 16

_OUT, _NODE = f'iifname "{OUTSIDE_PREFIX}*"', f'iifname "{NODE_LINK}"'
_LEG, _TUNNEL = f'iifname "{INGRESS_LEG_PREFIX}*"', f'iifname "{TUNNEL}"'
_CLIENTS: Final = (_OUT, _NODE)
_OWN: Final = [f"{_NODE} {WORDS[family]} saddr {own}" for family, own in zip(FAMILIES, INGRESS_LINK, strict=True)]
"""By family: the node itself and pods in it. All other packets on its link are of clients that routers led here."""
_KEY: Final = "{0} . inet_proto . inet_service"
_AT: Final = "IP daddr . meta l4proto . th dport"
_SYN: Final = "tcp flags & (fin | syn | rst | ack) == syn"
_MSS: Final = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu"
_DISCOVERY: Final = "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert }"


@dataclass(frozen=True, slots=True)
class ServedPort:
    """A port as the kernel needs it: marks of nodes and of links to Networks by slot, and its permitted clients."""

    protocol: str
    port: int
    nodes: tuple[int, ...] = ()
    legs: tuple[int, ...] = ()
    clients: tuple[str, ...] | None = None
    affinity: bool = False


@dataclass(frozen=True, slots=True)
class ServedAddress:
    """A public address with its number. `exit` is the mark of its link outside, 0 if this node cannot own it."""

    address: str
    number: int
    exit: int = 0
    ports: tuple[ServedPort, ...] = ()
    new_per_second: int | None = None
    connections: int | None = None


@dataclass(frozen=True, slots=True)
class IngressTables:
    """The content of an ingress namespace's tables."""

    node_address: str
    own_marks: tuple[str, str]
    addresses: Sequence[ServedAddress] = ()
    peers: Mapping[int, str] = field(default_factory=dict[int, str])  # hardware address of each node, by number
    masked: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])  # ranges by mark of a leg


_MAPS: Final = {
    "numbers": "{0} : mark",
    "exits": "{0} : mark",
    "open": f"{_KEY} : verdict",
    "tables": f"{_KEY} : classid",
    "local": f"{_KEY} : verdict",
    "locals": f"{_KEY} : classid",
    **clientlists.MAPS,
}
_SETS: Final = {
    "served": ("{0}", ""),
    "ports": (_KEY, ""),
    **clientlists.SETS,
    "masked": ("mark . {0}", "interval"),
    "inside": ("{0}", "interval"),
}


def entering(wanted: IngressTables) -> list[FilledTable]:
    """Return the tables of an ingress namespace."""
    elements = {f"{name}{family}": dict[str, str]() for name in (*_MAPS, *_SETS) for family in FAMILIES}
    slots, lists = SlotTables(), ClientLists(wanted.node_address)
    rates = sorted({each.new_per_second for each in wanted.addresses if each.new_per_second is not None})
    counts = sorted({each.connections for each in wanted.addresses if each.connections is not None})
    elements |= {name: dict[str, str]() for name in limit_sets(rates, counts)}
    for each in wanted.addresses:
        _fill(elements, slots, lists, each)
    elements["senders"] = {mac: f"goto gateway-{number}" for number, mac in wanted.peers.items()}
    _mask(elements, wanted.masked)
    highest = max(wanted.peers, default=0)
    # Rounded up, so that one more node is usually a change of elements only.
    gateways = range(1, min(255, -(-highest // _ROUND) * _ROUND) + 1)
    macs = {f"{NODE | number:#x}": mac for number, mac in wanted.peers.items()}
    macs |= {f"{number << BACK_SHIFT | BACK:#x}": mac for number, mac in wanted.peers.items()}
    return [
        FilledTable(
            "inet",
            NAME,
            limiting(rates, counts) + _chains(wanted.own_marks, gateways),
            {**elements, **lists.elements, **slots.elements},
        ),
        FilledTable("netdev", NAME, _TUNNELLED, {"macs": macs}),
        RESOLUTION_TABLE,
        GUARD_TABLE,
    ]


def _fill(elements: dict[str, dict[str, str]], slots: SlotTables, lists: ClientLists, each: ServedAddress) -> None:
    family = version(each.address)
    elements[f"served{family}"][each.address] = ""
    elements[f"numbers{family}"][each.address] = str(each.number)
    if each.exit:
        elements[f"exits{family}"][each.address] = f"{each.exit:#x}"
    if each.new_per_second is not None:
        elements[f"paced-{each.new_per_second}-{family}"][each.address] = ""
    if each.connections is not None:
        elements[f"limited-{each.connections}-{family}"][each.address] = ""
    for port in each.ports:
        key, by = f"{each.address} . {port.protocol.lower()} . {port.port}", "client" if port.affinity else "port"
        elements[f"ports{family}"][key] = ""
        for marks, verdicts, tables, to in (
            (port.nodes, "open", "tables", "nodes"),
            (port.legs, "local", "locals", "legs"),
        ):
            if marks:
                elements[f"{verdicts}{family}"][key] = f"goto {to}-by-{by}{family}"
                elements[f"{tables}{family}"][key] = slots.number(marks)
        if port.clients is not None:
            lists.restrict(key, port.clients, family)


def _mask(elements: dict[str, dict[str, str]], masked: Mapping[int, Sequence[str]]) -> None:
    every = set[str]()
    for mark, ranges in masked.items():
        reserved = {*ranges, "169.254.0.0/16", UPLINKS[1], INGRESS_LINK[1], *NODE_MARKS}
        every |= reserved
        for family in FAMILIES:
            elements[f"masked{family}"] |= {
                f"{mark:#x} . {written(span, family)}": "" for span in collapsed(reserved, family)
            }
    for family in FAMILIES:
        elements[f"inside{family}"] |= {written(span, family): "" for span in collapsed(every, family)}


def _chosen_by(name: str, family: int, tables: str, then: Sequence[str]) -> str:
    word = WORDS[family]
    made = ""
    for by, client in (("port", f"{word} saddr . th sport"), ("client", f"{word} saddr")):
        rules = [
            f"meta priority set {word} daddr . meta l4proto . th dport map @{tables}{family}",
            f"meta mark set jhash {client} mod {SLOTS} seed {_SEED:#x} offset {FIRST_SLOT}",
            "meta mark set meta priority . meta mark map @slots",
            "meta priority set none",
            *then,
        ]
        made += chain(f"{name}-by-{by}{family}", rules)
    return made


def _chains(own: tuple[str, str], gateways: Iterable[int]) -> str:
    declared = declaration("map", "slots", "classid . mark : mark")
    declared += declaration("map", "senders", "ether_addr : verdict")
    declared += declaration("set", "live", "mark", flags="dynamic,timeout")
    for family in FAMILIES:
        for name, kind in _MAPS.items():
            declared += declaration("map", f"{name}{family}", kind.format(TYPES[family]))
        for name, (kind, flags) in _SETS.items():
            declared += declaration("set", f"{name}{family}", kind.format(TYPES[family]), flags=flags)
    for number in gateways:
        # As constants: nft cannot write a looked-up number into a part of a mark.
        declared += chain(
            f"gateway-{number}", [f"ct mark set ct mark & {_GATEWAY ^ 0xFFFFFFFF:#x} | {number << BACK_SHIFT:#x}"]
        )
    for family in FAMILIES:
        declared += _chosen_by("legs", family, "locals", [])
        local = f"CARRIED meta mark {SELF:#x} WORD daddr . meta l4proto . th dport vmap @local{family}"
        local = local.replace("CARRIED", CARRIED).replace("WORD", WORDS[family])
        declared += chain(f"here{family}", [local])
        declared += _chosen_by("nodes", family, "tables", [f"meta mark {SELF:#x} jump here{family}"])
    return declared + _REST + _masking(own)


_FIRST: Final = [
    # With source routing a sender could choose a way past the rules.
    "ip option lsrr exists drop",
    "ip option ssrr exists drop",
    "exthdr rt exists drop",
    # A public address never comes in as a client: such packets are forged.
    *(rule for link in _CLIENTS for rule in both(f"{link} IP saddr @served# drop")),
    *(
        f"{link} {word} saddr {own} drop"
        for link in _CLIENTS
        for word, own in zip(WORDS.values(), NODE_MARKS, strict=True)
    ),
    # Programs of pods would take them for IPv4 addresses, of pods for example.
    *(f"{link} ip6 saddr ::ffff:0:0/96 drop" for link in _CLIENTS),
    *both(f"{_LEG} IP saddr != @served# drop"),
    # No state for a SYN from outside, unless its source must be translated.
    *both(f"{_OUT} IP saddr != @inside# {_SYN} notrack"),
    *(
        f"{_NODE} {WORDS[family]} saddr != {own} {WORDS[family]} saddr != @inside{family} {_SYN} notrack"
        for family, own in zip(FAMILIES, INGRESS_LINK, strict=True)
    ),
]

_OPEN: Final = [
    f"{_DISCOVERY} accept",
    *both(f"{_OUT} meta mark set IP daddr map @numbers#"),
    # The elements time out with the lease: an agent that hangs or is killed stops serving by itself.
    f"{_OUT} meta mark != @live drop",
    f"{_OUT} meta mark set 0",
    *(f"{link} jump ports" for link in _CLIENTS),
]
_PORTS: Final = [
    # Errors about connections that are known; their own ports are those of the connection.
    "meta l4proto { icmp, icmpv6 } ct state related accept",
    *both(f"{CARRIED} meta priority set {_AT} map @restricted# goto clients#"),
    *both(f"{CARRIED} {_AT} @ports# goto pace"),
    *(f"{own} goto refused" for own in _OWN),
    "drop",
]


def _clients(family: int) -> list[str]:
    word = WORDS[family]
    at = f"{word} daddr . meta l4proto . th dport"
    own = _OWN[family == 6]
    return [
        f"{own} {at} @insiders{family} meta priority set none accept",
        f"{own} goto refused",
        f"meta priority . {word} saddr @allowed{family} meta priority set none goto pace",
        "drop",
    ]


_REFUSED: Final = [
    "tcp flags & (syn | ack | rst) == syn reject with tcp reset",
    "meta l4proto tcp drop",
    "reject with icmpx type port-unreachable",
]

_CHOOSE: Final = [
    f"{_DISCOVERY} accept",
    *(f"{link} goto coming" for link in _CLIENTS),
    *both(f"{_TUNNEL} IP saddr @served# goto answering"),
    f"{_TUNNEL} goto arriving",
    # To the gateway that the client's last packet came by, also if that is not the first one.
    f"{_LEG} ct mark & {_GATEWAY:#x} != 0 meta mark set ct mark & {_GATEWAY:#x} | {BACK:#x} accept",
    f"{_LEG} goto answering",
]
_COMING: Final = [
    f"ct mark & {_GATEWAY:#x} != 0 ct mark set ct mark & {_GATEWAY ^ 0xFFFFFFFF:#x}",
    # Connections that exist keep their node, whatever the slots are now.
    f"ct mark & {_CHOSEN:#x} != 0 meta mark set ct mark & {_CHOSEN:#x} accept",
    "jump count",
    *both(f"{CARRIED} {_AT} vmap @open#"),
]
_ARRIVING: Final = [
    f"ct mark & {KIND:#x} == {LEG:#x} meta mark set ct mark & {_CHOSEN:#x} accept",
    # Not only new ones: the connection may have come by this node as a gateway before, with another node's mark.
    *both(f"{CARRIED} {_AT} vmap @local#"),
]
_OWN_CONNECTIONS: Final = [
    # Not outside: a segment with a router has a route to everything.
    f"ct original {WORDS[family]} saddr {own} accept"
    for family, own in zip(FAMILIES, INGRESS_LINK, strict=True)
]
_ANSWERING: Final = [*_OWN_CONNECTIONS, *both("meta mark set IP saddr map @exits#")]


_REST: Final = "".join(
    [
        chain("refused", _REFUSED),
        chain("clients4", _clients(4)),
        chain("clients6", _clients(6)),
        chain("first", _FIRST, "filter hook prerouting priority -300"),
        chain("ports", _PORTS),
        chain("open", _OPEN, "filter hook prerouting priority -160"),
        chain("coming", _COMING),
        chain("arriving", _ARRIVING),
        chain("answering", _ANSWERING),
        chain("choose", _CHOOSE, "filter hook prerouting priority -150"),
        # In a chain of its own, behind all choices, so that each of them may end its chain.
        chain(
            "remember",
            [
                # Without an endpoint: the node's own connections are refused, hosts outside get no answer.
                *(f"{own} {CARRIED} meta mark & {KIND:#x} != {{ {NODE:#x}, {LEG:#x} }} goto refused" for own in _OWN),
                f"meta mark & {KIND:#x} {{ {NODE:#x}, {LEG:#x} }} ct mark & {_CHOSEN:#x} == 0 ct mark set meta mark",
                f"{_TUNNEL} meta mark & {KIND:#x} == {LEG:#x} ct mark & {KIND:#x} != {LEG:#x} ct mark set meta mark",
                f"{_TUNNEL} meta mark & {KIND:#x} == {LEG:#x} ether saddr vmap @senders",
            ],
            "filter hook prerouting priority -149",
        ),
        chain(
            "passing",
            [
                _MSS,
                *(f"{link} meta mark & {KIND:#x} {{ {NODE:#x}, {LEG:#x} }} accept" for link in _CLIENTS),
                # Never back into the tunnel: a packet for an address that is not served here would come round.
                f'{_TUNNEL} meta mark & {KIND:#x} == {LEG:#x} oifname "{INGRESS_LEG_PREFIX}*" accept',
                *both(f'{_TUNNEL} IP saddr @served# oifname {{ "{OUTSIDE_PREFIX}*", "{NODE_LINK}" }} accept'),
                f'{_LEG} oifname != "{INGRESS_LEG_PREFIX}*" accept',
                "drop",
            ],
            "filter hook forward priority 0",
        ),
        chain(
            "inside",
            [f"{_DISCOVERY} accept", "icmpv6 type packet-too-big accept", "drop"],
            "filter hook input priority 0",
        ),
        # Errors that the gateway itself sends about a connection: from the public address, on the path of answers.
        chain(
            "errors",
            [
                "ct state != related accept",
                *both("IP saddr set ct original IP daddr"),
                f"ct mark & {_GATEWAY:#x} != 0 meta mark set ct mark & {_GATEWAY:#x} | {BACK:#x} accept",
                *_OWN_CONNECTIONS,
                *both("meta mark set ct original IP daddr map @exits#"),
            ],
            "route hook output priority -150",
        ),
    ]
)


def _masking(own: tuple[str, str]) -> str:
    rules: list[str] = []
    for family, link, mark in zip(FAMILIES, INGRESS_LINK, own, strict=True):
        word = WORDS[family]
        rules.append(f'oifname "{TUNNEL}" {word} saddr {link} snat {word} to {mark}')
        rules.append(f"meta mark . {word} saddr @masked{family} snat {word} to {mark}")
    # Answers to these are translated back before their route is chosen.
    return chain("mask", rules, "nat hook postrouting priority 100")


_TUNNELLED: Final = declaration("map", "macs", "mark : ether_addr") + chain(
    "tunnelled",
    # All nodes are behind one route; the hardware address selects the node.
    ["ether daddr set meta mark map @macs"],
    f'filter hook egress device "{TUNNEL}" priority 0',
)
