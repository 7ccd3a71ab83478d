"""Permitted clients of public addresses' ports, by list: a list has a number, and many ports may use it.

A Service may have 1,000 ports and 1,000 source ranges. Elements for each pair would be a million.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from tarmac.datapath.linux.tables.slots import ContentNumbers
from tarmac.datapath.linux.tables.text import FAMILIES, version
from tarmac.decide.reach.evaluation import collapsed, written

MAPS: Final = {"restricted": "{0} . inet_proto . inet_service : classid"}
SETS: Final = {
    "insiders": ("{0} . inet_proto . inet_service", ""),  # restricted ports that nodes may use
    "allowed": ("classid . {0}", "interval"),
}


class ClientLists:
    """The lists of one state, for sets and maps of both families."""

    def __init__(self, node_address: str) -> None:
        self.elements = {f"{name}{family}": dict[str, str]() for name in (*MAPS, *SETS) for family in FAMILIES}
        self._node_address = node_address
        self._numbers = ContentNumbers()
        self._admits_nodes: dict[tuple[str, int], bool] = {}

    def restrict(self, key: str, clients: tuple[str, ...], family: int) -> None:
        """Let only these ranges of a family reach the port of a key."""
        number = self._numbers.number(clients)
        admits_nodes = self._admits_nodes.get((number, family))
        if admits_nodes is None:
            admits_nodes = self._admits_nodes[number, family] = self._add(number, clients, family)
        self.elements[f"restricted{family}"][key] = number
        if admits_nodes:
            self.elements[f"insiders{family}"][key] = ""

    def _add(self, number: str, clients: tuple[str, ...], family: int) -> bool:
        """Add a list. Return True if this node is one of the clients."""
        spans = collapsed(clients, family)
        self.elements[f"allowed{family}"] |= {f"{number} . {written(span, family)}": "" for span in spans}
        own = int(ip_address(self._node_address))
        return version(self._node_address) == family and any(first <= own <= last for first, last in spans)
