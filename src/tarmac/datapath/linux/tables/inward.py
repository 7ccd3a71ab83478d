"""Ingress from the node into networks: its ports that lead to pods, and its source address there.

A port is translated to the router namespace of the pod's network, which knows the pod. Clients outside keep their
address, unless it is in use inside the network. Packets of the node itself, and of such clients, get the address that
represents the node. Packets from a network to the loopback are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tarmac.datapath.interface import HostPort
from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import CARRIED, FAMILIES, TYPES, WORDS, chain, declaration, version
from tarmac.decide.reach.evaluation import collapsed, written

Door = tuple[str, int]
"""Target of a port: the router's end of an uplink, and the number there."""

_LOCAL: Final = {4: "fib daddr type local", 6: "ip6 daddr != ::1 fib daddr type local"}
"""Addresses of the node. IPv6 packets from the loopback address cannot leave the node."""


def inward(
    name: str, uplinks: str, doors: Mapping[HostPort, Door], foreign: Sequence[str], marks: tuple[str, str]
) -> Table:
    """Return the table, given the targets of ports, ranges in use inside networks, and the node's own marks."""
    body, lead, mask, ours = "", list[str](), list[str](), f'"{uplinks}*"'
    for family, mark in zip(FAMILIES, marks, strict=True):
        word = WORDS[family]
        own = {port: door for port, door in doors.items() if version(door[0]) == family}
        body += _declarations(family, own, foreign)
        to = f"{CARRIED} dnat {word} to"
        lead.append(f"{to} {word} daddr . meta l4proto . th dport map @at{family}")
        lead.append(f"{_LOCAL[family]} {to} meta l4proto . th dport map @any{family}")
        mask.append(f"oifname {ours} {word} saddr @foreign{family} snat {word} to {mark}")
        mask.append(f"oifname {ours} fib saddr type local snat {word} to {mark}")
    # Before any translation: a pod must not reach services that the node offers to itself.
    body += chain("loopback", [f"iifname {ours} ip daddr 127.0.0.0/8 drop"], "filter hook prerouting priority -300")
    for hook in ("prerouting", "output"):
        body += chain(f"lead-{hook}", lead, f"nat hook {hook} priority -100")
    return Table("inet", name, body + chain("mask", mask, "nat hook postrouting priority 100"))


def _declarations(family: int, doors: Mapping[HostPort, Door], foreign: Sequence[str]) -> str:
    place, key = TYPES[family], "inet_proto . inet_service"
    one = {f"{port.address} . {_key(port)}": door for port, door in doors.items() if port.address}
    every = {_key(port): door for port, door in doors.items() if not port.address}
    ranges = (written(each, family) for each in collapsed(foreign, family))
    return (
        declaration("map", f"at{family}", f"{place} . {key} : {place} . inet_service", _pairs(one))
        + declaration("map", f"any{family}", f"{key} : {place} . inet_service", _pairs(every))
        + declaration("set", f"foreign{family}", place, ranges, flags="interval")
    )


def _key(port: HostPort) -> str:
    return f"{port.protocol.lower()} . {port.port}"


def _pairs(doors: Mapping[str, Door]) -> list[str]:
    return [f"{key} : {end} . {number}" for key, (end, number) in sorted(doors.items())]
