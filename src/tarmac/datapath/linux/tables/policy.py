"""Who may talk: the rules of every local address, asked of what is forwarded between links.

The node's own packets are not forwarded, so that probes always pass. Replies pass because their connection does. A pod
may always talk with itself. Addresses with the same rules share a chain, and chains share sets of peers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tarmac.datapath.interface import Allowance, Ports, Rules
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, WORDS, chain, declaration, digest, in_order, version
from tarmac.datapath.permitting import merged, ranges

NAME: Final = "tarmac-policy"
_PEER: Final = {"in": "saddr", "out": "daddr"}
_OWN: Final = {"in": "daddr", "out": "saddr"}


def policy(rules: Mapping[str, Rules]) -> Table:
    """The table for these rules by address."""
    parts: dict[str, str] = {}
    for family in FAMILIES:
        own = {address: each for address, each in rules.items() if version(address) == family}
        restricted = in_order(address for address, each in own.items() if each != Rules())
        pairs = (f"{address} . {address}" for address in restricted)
        parts[f"self{family}"] = declaration("set", f"self{family}", f"{TYPES[family]} . {TYPES[family]}", pairs)
        for direction in ("out", "in"):
            wanted = {address: _of(own[address], direction) for address in restricted}
            chosen = {address: each for address, each in wanted.items() if each is not None}
            parts |= dict(_chains(family, direction, chosen))
    return Table("inet", NAME, "".join(parts.values()) + _forward())


def _of(rules: Rules, direction: str) -> Sequence[Allowance] | None:
    return rules.ingress if direction == "in" else rules.egress


def _chains(family: int, direction: str, wanted: Mapping[str, Sequence[Allowance]]) -> Iterator[tuple[str, str]]:
    """Sets and chains by name, and last the map that sends each address to its chain."""
    targets: list[str] = []
    made: dict[str, str] = {}
    for address, allowances in wanted.items():
        name = f"{direction}{family}-{digest(tuple(allowances))}"
        targets.append(f"{address} : jump {name}")
        if name not in made:
            lines: list[str] = []
            for allowance in allowances:
                peers, match = _peers(family, direction, allowance)
                made |= peers
                lines += [f"{match}{ports}return" for ports in _ports(allowance.ports)] if match is not None else []
            made[name] = chain(name, [*lines, "drop"])
    verdicts = f"{direction}{family}"
    made[verdicts] = declaration("map", verdicts, f"{TYPES[family]} : verdict", targets)
    yield from made.items()


def _peers(family: int, direction: str, allowance: Allowance) -> tuple[dict[str, str], str | None]:
    """The set of peers by name, and the match with it; None when no peer of the family is meant."""
    meant = ranges(allowance, family)
    if meant is None:
        return {}, ""
    if not meant:
        return {}, None
    listed = [str(each.network_address) if each.num_addresses == 1 else str(each) for each in meant]
    name = f"peers{family}-{digest(tuple(listed))}"
    declared = declaration("set", name, TYPES[family], listed, flags="interval")
    return {name: declared}, f"{WORDS[family]} {_PEER[direction]} @{name} "


def _ports(ports: Sequence[Ports] | None) -> list[str]:
    if ports is None:
        return [""]
    found: list[str] = []
    for protocol in ("TCP", "UDP", "SCTP"):
        of = [each for each in ports if each.protocol == protocol]
        spans = merged(of) if of else []
        if spans is None:
            found.append(f"meta l4proto {protocol.lower()} ")
        elif spans:
            listed = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
            found.append(f"{protocol.lower()} dport {{ {listed} }} ")
    return found


def _forward() -> str:
    rules = ["ct state established,related accept"]
    rules += [f"{WORDS[family]} saddr . {WORDS[family]} daddr @self{family} accept" for family in FAMILIES]
    for direction in ("out", "in"):
        rules += [f"{WORDS[family]} {_OWN[direction]} vmap @{direction}{family}" for family in FAMILIES]
    return chain("forward", rules, "filter hook forward priority 0")
