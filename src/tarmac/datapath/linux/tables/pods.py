"""Whom the rules are about: the pod at every local address, those without any restriction included.

It says nothing to packets. It is written in one transaction with the rules, so that a process which knows nothing yet
can tell a pod that may do everything from one that nobody has thought about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tarmac.datapath.linux.nftables import Table
from tarmac.datapath.linux.tables.text import FAMILIES, TYPES, declaration, digest, in_order, version

NAME: Final = "tarmac-pods"


def pods(by_address: Mapping[str, str]) -> Table:
    """The table for these pods by address."""
    body = ""
    for family in FAMILIES:
        own = in_order(address for address in by_address if version(address) == family)
        marked = [f'{address} comment "{pod_mark(by_address[address])}"' for address in own]
        body += declaration("set", f"pods{family}", TYPES[family], marked)
    return Table("inet", NAME, body)


def known_pods(listing: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The marks of pods by address, in a listing of the table."""
    elements = [each for part in listing for each in part.get("set", {}).get("elem", ())]
    return {each["elem"]["val"]: each["elem"].get("comment", "") for each in elements if "elem" in each}


def pod_mark(uid: str) -> str:
    """What stands for a pod there: nothing that anybody wrote becomes part of nft's language."""
    return digest(uid)
