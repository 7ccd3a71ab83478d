"""Network policy: the rules of every local address, evaluated for packets forwarded between links.

The node's own packets are not forwarded, so probes always pass. Replies pass because their connection does. A pod may
always talk with itself. Addresses with the same rules share a chain, and chains share sets of peers. A chain has one
rule for each set of ports, for any number of policies: the kernel finds an element of a set at once, but a set only by
walking over all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, WORDS, chain, declaration, digest, in_order, version
from tarmac.decide.reach.evaluation import grouped, merged, written
from tarmac.decide.reach.policyrules import Allowance, PortRange, Rules

NAME: Final = "tarmac-policy"
_PEER: Final = {"in": "saddr", "out": "daddr"}
_OWN: Final = {"in": "daddr", "out": "saddr"}


def policy(rules: Mapping[str, Rules]) -> Table:
    """Return the table for these rules by address."""
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
    """Yield sets and chains by name, and last the map that sends each address to its chain."""
    targets: list[str] = []
    made: dict[str, str] = {}
    named: dict[int, str] = {}  # by identity: many addresses share the same rules object, which may be long
    for address, allowances in wanted.items():
        if id(allowances) not in named:
            named[id(allowances)] = _add_chain(made, family, direction, allowances)
        targets.append(f"{address} : jump {named[id(allowances)]}")
    verdicts = f"{direction}{family}"
    made[verdicts] = declaration("map", verdicts, f"{TYPES[family]} : verdict", targets)
    yield from made.items()


def _add_chain(made: dict[str, str], family: int, direction: str, allowances: Sequence[Allowance]) -> str:
    """Add a chain for allowances, and its sets, under names derived from their content; return the chain's name."""
    lines: list[str] = []
    for ports, spans in grouped(allowances, family).items():
        match = ""
        if spans is not None:
            peers = _add_peers(made, family, [written(each, family) for each in spans])
            match = f"{WORDS[family]} {_PEER[direction]} @{peers} "
        lines += [f"{match}{each}return" for each in _ports(ports)]
    name = f"{direction}{family}-{digest(lines)}"
    # Closed unless a rule returns: a rule that is missing must not open anything.
    made[name] = chain(name, [*lines, "drop"])
    return name


def _add_peers(made: dict[str, str], family: int, listed: Sequence[str]) -> str:
    name = f"peers{family}-{digest(listed)}"
    made[name] = declaration("set", name, TYPES[family], listed, flags="interval")
    return name


def _ports(ports: Sequence[PortRange] | None) -> list[str]:
    if ports is None:
        return [""]
    found: list[str] = []
    for protocol in ("TCP", "UDP", "SCTP"):
        of = [each for each in ports if each.protocol == protocol]
        spans = merged(of) if of else []
        if spans is None:
            found.append(f"meta l4proto {protocol.lower()} ")
        elif spans:
            listed = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
            found.append(f"{protocol.lower()} dport {_any_of(listed)} ")
    return found


def _any_of(listed: Sequence[str]) -> str:
    """Return a match. A single value needs no set: every set makes the kernel walk over all sets of the table."""
    return listed[0] if len(listed) == 1 else f"{{ {', '.join(listed)} }}"


def _forward() -> str:
    # Only first packets are judged, so connections that a change forbids must be revoked by their entries.
    rules = ["ct state established,related accept"]
    rules += [f"{WORDS[family]} saddr . {WORDS[family]} daddr @self{family} accept" for family in FAMILIES]
    for direction in ("out", "in"):
        rules += [f"{WORDS[family]} {_OWN[direction]} vmap @{direction}{family}" for family in FAMILIES]
    return chain("forward", rules, "filter hook forward priority 0")
