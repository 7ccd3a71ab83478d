"""Pairs gateways for connection synchronization when several addresses want different pairs.

A gateway synchronizes connections with one peer. Each Gateway object pairs its candidates; the pair that most addresses
want is formed first, then the next pair of two unpaired nodes. Every node computes the pairs from all Gateways, so both
nodes of a pair get the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tarmac.api.egress.forwarding import Gateway


def sync_pairs(gateways: Iterable[Gateway]) -> dict[str, str]:
    """Return each node's peer by name, in both directions."""
    wanted: Counter[tuple[str, str]] = Counter()
    for gateway in gateways:
        partners = {each.name: each.partner for each in gateway.spec.candidates if each.partner}
        wanted.update((one, other) for one, other in partners.items() if one < other and partners.get(other) == one)
    pairs: dict[str, str] = {}
    for (one, other), _ in sorted(wanted.items(), key=lambda each: (-each[1], each[0])):
        if one not in pairs and other not in pairs:
            pairs[one], pairs[other] = other, one
    return pairs
