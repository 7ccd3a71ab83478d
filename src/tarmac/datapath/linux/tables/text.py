"""Elements of nft's syntax that every table uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from ipaddress import ip_address
from typing import Final, Literal

FAMILIES: Final = (4, 6)
TYPES: Final = {4: "ipv4_addr", 6: "ipv6_addr"}
WORDS: Final = {4: "ip", 6: "ip6"}
CARRIED: Final = "meta l4proto { tcp, udp, sctp }"
"""Protocols that have ports."""


def version(address: str) -> int:
    """Return the IP version of an address, 4 or 6."""
    return 6 if ":" in address else 4


def digest(*parts: object) -> str:
    """Return a short name derived from content."""
    return sha256(repr(parts).encode()).hexdigest()[:12]


def declaration(
    sort: str,
    name: str,
    type: str,
    elements: Iterable[str] = (),
    flags: str = "",
    typing: Literal["type", "typeof"] = "type",
    *,
    counted: bool = False,
) -> str:
    """Return a set or map with its elements. With `typeof` its type is that of the expressions used as keys.

    `counted`: each element has a counter.
    """
    listed = ", ".join(elements)
    lines = [f"{typing} {type}"]
    lines += [f"flags {flags}"] if flags else []
    lines += ["counter"] if counted else []
    lines += [f"elements = {{ {listed} }}"] if listed else []
    return f"\t{sort} {name} {{\n" + "".join(f"\t\t{line}\n" for line in lines) + "\t}\n"


def chain(name: str, rules: Sequence[str], hook: str = "") -> str:
    """Return a chain; with a hook, such as `filter hook forward priority 0`, a base chain."""
    head = f"\t\ttype {hook}; policy accept;\n" if hook else ""
    return f"\tchain {name} {{\n{head}" + "".join(f"\t\t{rule}\n" for rule in rules) + "\t}\n"


def both(rule: str) -> list[str]:
    """Return a rule for each family: `IP` stands for its keyword, `#` for its number."""
    return [rule.replace("IP", WORDS[family]).replace("#", str(family)) for family in FAMILIES]


def in_order(addresses: Iterable[str]) -> list[str]:
    """Return addresses of one family in numerical order."""
    return sorted(addresses, key=lambda each: int(ip_address(each)))
