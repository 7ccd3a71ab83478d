"""Records the pod at every local address, including pods without restrictions.

It does not affect packets. It changes in one transaction with the rules, so a new process can tell a pod without
restrictions from a pod without rules yet. Every new pod changes it, so it is changed by elements, while other tables
are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, digest, version

NAME: Final = "tarmac-pods"


def marks(pods: Mapping[str, str]) -> dict[str, str]:
    """Return digests of the pods' uids by address: no foreign text becomes part of nft's syntax."""
    return {address: digest(uid) for address, uid in pods.items()}


def change(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the commands that replace marks by address; empty if nothing changes."""
    gone = [address for address, mark in before.items() if after.get(address) != mark]
    new = [address for address, mark in after.items() if before.get(address) != mark]
    if not gone and not new:
        return ""
    lines = [f"add table inet {NAME}"]
    lines += [f"add set inet {NAME} pods{family} {{ type {TYPES[family]}; }}" for family in FAMILIES]
    # Deletions first: adding an element that exists would keep its old mark.
    lines += [f"delete element {_set(address)} {{ {address} }}" for address in gone]
    lines += [f'add element {_set(address)} {{ {address} comment "{after[address]}" }}' for address in new]
    return "\n".join(lines) + "\n"


def found(listing: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the marks by address in a listing of the table."""
    elements = [each for part in listing for each in part.get("set", {}).get("elem", ())]
    parts = [{"val": each} if isinstance(each, str) else each["elem"] for each in elements]
    return {each["val"]: each.get("comment", "") for each in parts}


def _set(address: str) -> str:
    return f"inet {NAME} pods{version(address)}"
