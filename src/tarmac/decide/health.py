"""The readiness of a place from the state of its nodes.

One ready node is enough. When none is ready, the cause matters: nodes that report NotReady are broken, while silent
nodes may be cut off with all their pods still running. A place with only silent nodes is unreachable, not dead, and
decisions about it must be reversible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tarmac.decide import reasons


@dataclass(frozen=True, slots=True)
class Health:
    """The readiness of a place, in the form of a condition."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def place_health(ready: int, not_ready: int, silent: int) -> Health:
    """Return the health of a place from the numbers of its nodes that are ready, report NotReady, and are silent."""
    total = ready + not_ready + silent
    if ready:
        return Health("True", reasons.NODES_READY, f"{ready} of {total} nodes are ready.")
    if not total:
        return Health("False", reasons.NO_READY_NODES, "No node belongs to the Location.")
    if silent == total:
        message = f"None of the {total} nodes sends heartbeats; instances there may still run."
        return Health("Unknown", reasons.LOCATION_UNREACHABLE, message)
    return Health("False", reasons.NO_READY_NODES, f"None of the {total} nodes is ready; {silent} are silent.")
