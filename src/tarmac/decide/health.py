"""Whether a place can take instances, by what is known of its nodes.

One ready node is enough. When none is ready it matters why: nodes that say so themselves are broken, nodes that nobody
has heard from may be cut off while everything on them runs on. A place of which every node is silent is unreachable,
not dead, and what is decided about it must be possible to take back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tarmac.decide import reasons


@dataclass(frozen=True, slots=True)
class Health:
    """Whether a place is ready, as a condition says it."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def place_health(ready: int, not_ready: int, silent: int) -> Health:
    """The health of a place from its nodes: how many are ready, say that they are not, and say nothing at all."""
    total = ready + not_ready + silent
    if ready:
        return Health("True", reasons.NODES_READY, f"{ready} of {total} nodes are ready.")
    if not total:
        return Health("False", reasons.NO_READY_NODES, "No node belongs to the Location.")
    if silent == total:
        message = f"Nothing is heard from any of the {total} nodes; what runs there may well run on."
        return Health("Unknown", reasons.LOCATION_UNREACHABLE, message)
    return Health("False", reasons.NO_READY_NODES, f"None of the {total} nodes is ready; {silent} are silent.")
