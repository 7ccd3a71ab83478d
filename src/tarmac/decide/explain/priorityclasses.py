"""Explains a priority class that was deleted after objects naming it were admitted.

Existing pods keep their priority, but no new pod that names the class is admitted, so pods that end are not replaced.
"""

from __future__ import annotations

from tarmac.api.kubernetes.priorityclasses import SYSTEM
from tarmac.decide import reasons
from tarmac.decide.snapshot.snapshot import PRIORITY_CLASSES, Snapshot
from tarmac.decide.verdict import Refusal


def missing_class(snapshot: Snapshot, name: str) -> Refusal | None:
    """Return a refusal if the class that a template or pod names does not exist; else None."""
    source = PRIORITY_CLASSES.resource
    if not name or name in SYSTEM or not snapshot.holds(source) or snapshot.get(source, name) is not None:
        return None
    message = f"PriorityClass {name} does not exist: running Pods keep their priority, and no new ones are admitted."
    change = f"Create PriorityClass {name}, or name another in priorityClassName."
    return Refusal(reasons.PRIORITY_CLASS_NOT_FOUND, message, rule="priority", change=change)
