"""Which ranges hold the address of a node.

A network with a node's address in its range would be in the node's place for its own pods: they could not reach what
runs there, the API server perhaps, or would reach somebody else.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address, ip_network

Span = tuple[int, int, int]
"""The family, and the first and the last address as numbers."""


class NodeAddresses:
    """The addresses of every node, in order: asking about a range costs the same for one node as for thousands."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[tuple[int, int], ...]] = {}
        self._sorted: list[tuple[int, int]] = []  # family and number

    def put(self, node: str, addresses: Iterable[str]) -> bool:
        """A node has these addresses and no others; whether that is news."""
        found = tuple(sorted({parsed for each in addresses if (parsed := _parsed(each)) is not None}))
        before = self._by_node.get(node, ())
        if found == before:
            return False
        for each in before:
            del self._sorted[bisect_left(self._sorted, each)]
        for each in found:
            insort(self._sorted, each)
        if found:
            self._by_node[node] = found
        else:
            del self._by_node[node]
        return True

    def are_in(self, cidr: str) -> bool:
        """Whether a range holds one of them."""
        family, first, last = _span(cidr)
        at = bisect_left(self._sorted, (family, first))
        return at < len(self._sorted) and self._sorted[at] <= (family, last)


def _parsed(address: str) -> tuple[int, int] | None:
    """A node's loopback and link-local addresses, if it names them, are everybody's."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return None
    return None if parsed.is_loopback or parsed.is_link_local else (parsed.version, int(parsed))


@lru_cache(maxsize=1 << 12)
def _span(cidr: str) -> Span:
    network = ip_network(cidr)
    return network.version, int(network.network_address), int(network.broadcast_address)
