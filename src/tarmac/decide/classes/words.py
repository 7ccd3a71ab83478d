"""What people are told of a class that cannot be had: by the node, by the scheduler and by `tarmac why` alike."""

from __future__ import annotations

from collections.abc import Collection

from tarmac.decide.classes.counting import Place


def not_offered(place: Place, node: str, there: Collection[str]) -> str:
    """That a class is not there, and which of its type are."""
    kind, name = place
    has = ", ".join(sorted(there)) or f"no class of type {kind}"
    return f"class {kind}/{name} is not offered on {node}; it offers {has}"


def for_whole_pods(place: Place, node: str) -> str:
    """That a container asks for a class that only a whole pod can have."""
    kind, name = place
    return f"class {kind}/{name} is offered on {node} for whole pods only"


def full(place: Place, node: str, asked: int, used: int, capacity: int) -> str:
    """That a class has no place left."""
    kind, name = place
    return f"class {kind}/{name} on {node} is full: asked {asked}, used {used}, capacity {capacity}"
