"""Slots: the shares of a public address's connections that go to each node. Pure.

A gateway chooses a node by a hash of the client, modulo 256. The table of the 256 slots depends on nothing but the
nodes and their weights, so every gateway computes the same one, and a connection that moves to another gateway goes to
the same node. A node that comes or goes changes few slots of the other nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from math import ceil
from typing import Final

SLOTS: Final = 256
_SLACK: Final = 1.1
"""A node gets at most this multiple of its fair share."""


def slots(weights: Mapping[str, int]) -> tuple[str, ...]:
    """Return the node of each slot; empty without a node of positive weight.

    Each slot goes to the node with the highest hash of node and slot among those that are not full.
    """
    return _slots(tuple(sorted((node, weight) for node, weight in weights.items() if weight > 0)))


@lru_cache(maxsize=2048)
def _slots(weights: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    # Cached: most addresses lead to the same nodes, and a table of a hundred nodes takes milliseconds.
    total = sum(weight for _, weight in weights)
    if not total:
        return ()
    room = {node: ceil(_SLACK * SLOTS * weight / total) for node, weight in weights}
    found: list[str] = []
    for slot in range(SLOTS):
        best = max((node for node in room if room[node]), key=lambda node: _rank(node, slot))
        room[best] -= 1
        found.append(best)
    return tuple(found)


@lru_cache(maxsize=1 << 15)
def _rank(node: str, slot: int) -> bytes:
    return blake2b(f"{node}\0{slot}".encode(), digest_size=8).digest()
