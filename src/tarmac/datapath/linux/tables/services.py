"""Cluster addresses: sends connections to one of the backends, at random or to the client's previous one.

Services with the same number of backends share one map and one chain: the kernel finds an element at once in a map of
any size, but a set or a chain only by walking over all of them. Only services with affinity have chains of their own.

A service without a backend rejects at once. A pod that reaches itself would get an answer from its own address, which
it would not accept: such connections get the gateway's address as their source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import (
    CARRIED,
    FAMILIES,
    TYPES,
    WORDS,
    chain,
    declaration,
    digest,
    in_order,
    version,
)
from tarmac.decide.reach.policyrules import ServiceFrontend

NAME: Final = "tarmac-services"
_REFUSAL: Final = {4: "icmp type port-unreachable", 6: "icmpv6 type port-unreachable"}
Client = tuple[str, int]
"""A client's address, and its remaining affinity in seconds."""

NOBODY: Final[Mapping[str, Sequence[Client]]] = {}


def services(
    ports: Sequence[ServiceFrontend], remembered: Mapping[str, Sequence[Client]] = NOBODY, name: str = NAME
) -> Table:
    """Return the table for these services.

    `remembered` are the clients in the sets of the table it replaces, by set.
    """
    parts = [_declarations(family, [port for port in ports if version(port.address) == family]) for family in FAMILIES]
    parts += [_choices(family, size, group) for (family, size), group in sorted(_by_size(ports).items())]
    parts += [_with_affinity(port) for port in ports if port.backends and port.affinity]
    parts += [_refuse(hook) + _translate(hook) for hook in ("prerouting", "output")] + [_hairpin()]
    return Table("inet", name, "".join(parts), _restored(ports, remembered))


def client_sets(ports: Sequence[ServiceFrontend]) -> list[str]:
    """Return the names of the sets that remember clients."""
    return [_clients(port, backend) for port in ports if port.affinity for backend in port.backends]


def _declarations(family: int, ports: Sequence[ServiceFrontend]) -> str:
    key = f"{TYPES[family]} . inet_proto . inet_service"
    served = [f"{_key(port)} : goto {_chain_of(port)}" for port in ports if port.backends]
    refused = [_key(port) for port in ports if not port.backends]
    backends = in_order({address for port in ports for address, _ in port.backends})
    pairs = [f"{address} . {address}" for address in backends]
    return (
        declaration("map", f"ports{family}", f"{key} : verdict", served)
        + declaration("set", f"refused{family}", key, refused)
        + declaration("set", f"self{family}", f"{TYPES[family]} . {TYPES[family]}", pairs)
    )


def _restored(ports: Sequence[ServiceFrontend], remembered: Mapping[str, Sequence[Client]]) -> str:
    lines: list[str] = []
    for port in ports:
        for name in (_clients(port, backend) for backend in port.backends if port.affinity):
            # With the remaining time: a full timeout at each change would never release a client.
            kept = [f"{who} timeout {port.affinity}s expires {left}s" for who, left in remembered.get(name, ())]
            lines += [f"add element inet {NAME} {name} {{ {', '.join(kept)} }}\n"] if kept else []
    return "".join(lines)


def _by_size(ports: Sequence[ServiceFrontend]) -> dict[tuple[int, int], list[ServiceFrontend]]:
    """Group services without affinity by family and number of backends."""
    found: dict[tuple[int, int], list[ServiceFrontend]] = {}
    for port in ports:
        if port.backends and not port.affinity:
            found.setdefault((version(port.address), len(port.backends)), []).append(port)
    return found


def _choices(family: int, size: int, ports: Sequence[ServiceFrontend]) -> str:
    """Return a map from an address and a number below `size` to a backend, and the chain that draws the number."""
    word, name = WORDS[family], f"choices{family}-{size}"
    key = f"{word} daddr . meta l4proto . th dport . numgen random mod {size}"
    elements = [
        f"{_key(port)} . {n} : {address} . {at}" for port in ports for n, (address, at) in enumerate(port.backends)
    ]
    declared = declaration("map", name, f"{key} : {word} daddr . th dport", elements, typing="typeof")
    return declared + chain(f"any{family}-of-{size}", [f"{CARRIED} dnat {word} to {key} map @{name}"])


def _with_affinity(port: ServiceFrontend) -> str:
    family = version(port.address)
    word, protocol = WORDS[family], port.protocol.lower()
    made = ""
    for backend in port.backends:
        address, at = backend
        known = _clients(port, backend)
        made += declaration("set", known, TYPES[family], flags="dynamic,timeout")
        target = f"[{address}]:{at}" if family == 6 else f"{address}:{at}"
        # `update`, not `add`: the timeout of a known client must start again.
        update = f"update @{known} {{ {word} saddr timeout {port.affinity}s }}"
        made += chain(_to(port, backend), [update, f"meta l4proto {protocol} dnat {word} to {target}"])
    known_ones = [f"{word} saddr @{_clients(port, each)} goto {_to(port, each)}" for each in port.backends]
    choices = ", ".join(f"{n} : goto {_to(port, each)}" for n, each in enumerate(port.backends))
    return made + chain(_name(port), [*known_ones, f"numgen random mod {len(port.backends)} vmap {{ {choices} }}"])


def _refuse(hook: str) -> str:
    rules: list[str] = []
    for family in FAMILIES:
        match = f"{WORDS[family]} daddr . meta l4proto . th dport @refused{family}"
        rules += [f"{match} meta l4proto tcp reject with tcp reset", f"{match} reject with {_REFUSAL[family]}"]
    # Before the translation: afterwards the packet has no address of a service any more.
    return chain(f"refuse-{hook}", rules, f"filter hook {hook} priority -150")


def _translate(hook: str) -> str:
    rules = [f"{WORDS[family]} daddr . meta l4proto . th dport vmap @ports{family}" for family in FAMILIES]
    return chain(f"translate-{hook}", rules, f"nat hook {hook} priority -100")


def _hairpin() -> str:
    rules = [
        f"ct status dnat {WORDS[family]} saddr . {WORDS[family]} daddr @self{family} masquerade" for family in FAMILIES
    ]
    return chain("hairpin", rules, "nat hook postrouting priority 100")


def _key(port: ServiceFrontend) -> str:
    return f"{port.address} . {port.protocol.lower()} . {port.port}"


def _chain_of(port: ServiceFrontend) -> str:
    return _name(port) if port.affinity else f"any{version(port.address)}-of-{len(port.backends)}"


def _name(port: ServiceFrontend) -> str:
    return f"to-{digest(port.address, port.protocol, port.port)}"


def _to(port: ServiceFrontend, backend: tuple[str, int]) -> str:
    return f"{_name(port)}-{digest(backend)}"


def _clients(port: ServiceFrontend, backend: tuple[str, int]) -> str:
    return f"clients-{digest(port.address, port.protocol, port.port, backend)}"
