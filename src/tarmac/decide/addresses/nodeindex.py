"""Index of node addresses, for ranges that contain one.

A network with a node's address in its range would hide that node from its own pods: they could not reach the services
on it, such as the API server, or would reach a different host.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network

Span = tuple[int, int, int]
"""Family, and first and last address as numbers."""


class NodeAddresses:
    """The sorted addresses of all nodes: a query for a range takes logarithmic time."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[tuple[int, int], ...]] = {}
        self._sorted: list[tuple[int, int, str]] = []  # family, number and node

    def put(self, node: str, addresses: Iterable[str]) -> bool:
        """Set the addresses of a node; return True if they changed."""
        found = tuple(sorted({parsed for each in addresses if (parsed := _parsed(each)) is not None}))
        before = self._by_node.get(node, ())
        if found == before:
            return False
        for each in before:
            del self._sorted[bisect_left(self._sorted, (*each, node))]
        for each in found:
            insort(self._sorted, (*each, node))
        if found:
            self._by_node[node] = found
        else:
            del self._by_node[node]
        return True

    def are_in(self, cidr: str) -> bool:
        """Return True if a range contains a node's address."""
        return bool(self.first_in(cidr))

    def first_in(self, cidr: str) -> str:
        """Return the node with the lowest address in a range; empty if there is none."""
        family, first, last = _span(cidr)
        at = bisect_left(self._sorted, (family, first))
        return self._sorted[at][2] if at < len(self._sorted) and self._sorted[at][:2] <= (family, last) else ""

    def count(self, cidr: str) -> int:
        """Count the nodes with at least one address in a range."""
        family, first, last = _span(cidr)
        start, end = bisect_left(self._sorted, (family, first)), bisect_left(self._sorted, (family, last + 1))
        return len({node for _, _, node in self._sorted[start:end]})


def _parsed(address: str) -> tuple[int, int] | None:
    """Parse an address; None if it is invalid, or loopback or link-local, which all nodes have in common."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return None if parsed.is_loopback or parsed.is_link_local else (parsed.version, int(parsed))


@lru_cache(maxsize=1 << 12)
def _span(cidr: str) -> Span:
    network = ip_network(cidr)
    return network.version, int(network.network_address), int(network.broadcast_address)
