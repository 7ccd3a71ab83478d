"""The refusal for a name that another object has, or that a predecessor still has."""

from __future__ import annotations

from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


def name_taken(kind: str, name: str, *, going: bool, where: str = "", change: str = "") -> Refusal:
    """Return the refusal. `going`: the object with that name is being deleted, so that waiting is enough."""
    where = where or name
    if going:
        return Refusal(reasons.NAME_BEING_DELETED, f"An older {kind} {name} is still being deleted.", where)
    change = change or f"Delete {kind} {name}."
    return Refusal(reasons.NAME_TAKEN, f"{kind} {name} belongs to someone else.", where, change=change)
