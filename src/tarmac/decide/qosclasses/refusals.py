"""Messages about unavailable classes, shared by the node, the scheduler and `tarmac why`."""

from __future__ import annotations

from collections.abc import Collection

from tarmac.decide.qosclasses.counting import Place


def not_offered(place: Place, node: str, there: Collection[str]) -> str:
    """Return the message that a class is not offered, with the offered classes of its type."""
    kind, name = place
    has = ", ".join(sorted(there)) or f"no class of type {kind}"
    return f"class {kind}/{name} is not offered on {node}; it offers {has}"


def for_whole_pods(place: Place, node: str) -> str:
    """Return the message that a class is offered for whole pods only."""
    kind, name = place
    return f"class {kind}/{name} is offered on {node} for whole pods only"


def full(place: Place, node: str, requested: int, used: int, capacity: int) -> str:
    """Return the message that a class has no free place."""
    kind, name = place
    return f"class {kind}/{name} on {node} is full: asked {requested}, used {used}, capacity {capacity}"
