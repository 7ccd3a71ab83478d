"""A priority class that was deleted after something that names it was admitted.

What is there keeps the priority it was given; but no pod that names the class is admitted any more, so nothing that
ends is replaced.
"""

from __future__ import annotations

from tarmac.api.kubernetes.priorityclasses import SYSTEM
from tarmac.decide import reasons
from tarmac.decide.snapshot.snapshot import PRIORITY_CLASSES, Snapshot
from tarmac.decide.verdict import Refusal


def missing_class(snapshot: Snapshot, name: str) -> Refusal | None:
    """What there is to say about a class that a template or pod names; None when it exists."""
    source = PRIORITY_CLASSES.resource
    if not name or name in SYSTEM or not snapshot.holds(source) or snapshot.get(source, name) is not None:
        return None
    message = f"PriorityClass {name} does not exist: what runs keeps its priority, and nothing new is admitted."
    change = f"Create PriorityClass {name}, or name another in priorityClassName."
    return Refusal(reasons.PRIORITY_CLASS_NOT_FOUND, message, rule="priority", change=change)
