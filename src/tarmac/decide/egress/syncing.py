"""Which two gateways share their connections, where several addresses want different pairs.

A gateway shares them with one other. Each Gateway object says how its candidates are paired; the pair that most
addresses want comes first, then the next of two that are still alone. Every node works it out from all Gateways, so
that both of a pair come to the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tarmac.api.submariner.relays import Gateway


def sync_pairs(gateways: Iterable[Gateway]) -> dict[str, str]:
    """Partners by the names of nodes, in both directions."""
    wanted: Counter[tuple[str, str]] = Counter()
    for gateway in gateways:
        said = {each.name: each.partner for each in gateway.spec.candidates if each.partner}
        wanted.update((one, other) for one, other in said.items() if one < other and said.get(other) == one)
    pairs: dict[str, str] = {}
    for (one, other), _ in sorted(wanted.items(), key=lambda each: (-each[1], each[0])):
        if one not in pairs and other not in pairs:
            pairs[one], pairs[other] = other, one
    return pairs
