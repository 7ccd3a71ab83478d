"""Public addresses in a router namespace: translation to a pod, and the way back of its answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tarmac.datapath.linux.naming import END_PREFIX, INGRESS, UPLINK
from tarmac.datapath.linux.ruleset import FilledTable
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, TYPES, WORDS, both, chain, declaration, version

NAME: Final = "tarmac-in"
ENTERED: Final = 0x20000
"""The mark of connections to public addresses; those of external services have lower ones."""
ROUTED: Final = 2
"""The mark of packets that leave through the link `ingress`."""

_FIRST_PLACE: Final = 256
_SEED: Final = 0x7461726D
_POD, _INGRESS = f'iifname "{END_PREFIX}*"', f'iifname "{INGRESS}"'
_AT: Final = "IP daddr . meta l4proto . th dport"
_SYN: Final = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu"
_OURS: Final = f"ct mark & {ENTERED:#x} != 0"


class Reception(NamedTuple):
    """A port of a public address, and the address and port of each pod that serves it here."""

    address: str
    protocol: str
    port: int
    backends: tuple[tuple[str, int], ...]
    affinity: bool = False


Size = tuple[int, int, bool]
"""Size of a choice: the family, the number of pods, and True if the client's port does not count."""


def receiving(receptions: Iterable[Reception]) -> FilledTable:
    """Return the table."""
    elements: dict[str, dict[str, str]] = {f"receive{family}": {} for family in FAMILIES}
    sizes: set[Size] = set()
    for each in receptions:
        size = version(each.address), len(each.backends), each.affinity
        key = f"{each.address} . {each.protocol.lower()} . {each.port}"
        sizes.add(size)
        elements[f"receive{size[0]}"][key] = f"goto {_name(size)}"
        elements.setdefault(_name(size), {}).update(
            (f"{key} . {place}", f"{address} . {port}")
            for place, (address, port) in enumerate(each.backends, _FIRST_PLACE)
        )
    declared = "".join(
        declaration("map", f"receive{family}", f"{TYPES[family]} . inet_proto . inet_service : verdict")
        for family in FAMILIES
    )
    return FilledTable("inet", NAME, declared + "".join(map(_choice, sorted(sizes))) + _CHAINS, elements)


def _name(size: Size) -> str:
    family, number, affinity = size
    return f"receive{family}-{number}{'-client' if affinity else ''}"


def _choice(size: Size) -> str:
    family, number, affinity = size
    name, word, kind = _name(size), WORDS[family], TYPES[family]
    client = f"{word} saddr" + ("" if affinity else " . th sport")
    rules: Sequence[str] = [
        f"meta mark set jhash {client} mod {number} seed {_SEED:#x} offset {_FIRST_PLACE}",
        f"{CARRIED} dnat {word} to {word} daddr . meta l4proto . th dport . meta mark map @{name}",
    ]
    declared = declaration("map", name, f"{kind} . inet_proto . inet_service . mark : {kind} . inet_service")
    return declared + chain(name, rules)


_CHAINS: Final = "".join(
    [
        chain(
            "marking",
            [
                f"{_INGRESS} ct state new ct mark set {ENTERED:#x}",
                f"{_POD} {_OURS} meta mark set {ROUTED}",
            ],
            "filter hook prerouting priority -149",
        ),
        # Before the cluster addresses, which may know the same address: they lead to pods of other nodes, too.
        chain("translate", both(f"{_INGRESS} {CARRIED} {_AT} vmap @receive#"), "nat hook prerouting priority -101"),
        chain(
            "guard",
            [
                # Such a connection never leaves by the uplink, where it would have the node's address.
                f'{_OURS} oifname != "{INGRESS}" oifname != "{END_PREFIX}*" drop',
                f'oifname "{INGRESS}" ct mark & {ENTERED:#x} == 0 drop',
                f"{_INGRESS} ct state invalid drop",
                f"{_INGRESS} ct state new ct status & dnat == 0 drop",
                f'oifname "{INGRESS}" {_SYN}',
                f"{_INGRESS} {_SYN}",
            ],
            "filter hook forward priority -1",
        ),
        # ICMP errors of the router about a connection take the way of its answers.
        chain("own", [f'oifname "{UPLINK}" {_OURS} meta mark set {ROUTED}'], "route hook output priority -150"),
    ]
)
