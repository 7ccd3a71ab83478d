"""Conditions as controllers keep them: one entry per type, whose time moves only when its status flips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from tarmac.api.declare import Time
from tarmac.api.shared import Condition
from tarmac.base.clock import rfc3339

Truth = Literal["True", "False", "Unknown"]


def truth(holds: bool) -> Truth:
    """How a condition says yes or no."""
    return "True" if holds else "False"


def find(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of a type."""
    return next((each for each in conditions if each.type == type), None)


def holds(conditions: Iterable[Condition], type: str) -> bool:
    """Whether a condition is True. One that is absent is unknown."""
    found = find(conditions, type)
    return found is not None and found.status == "True"


def with_condition(conditions: Sequence[Condition], wanted: Condition, now: float) -> list[Condition]:
    """The conditions with one of them as wanted, in the order they had."""
    known = find(conditions, wanted.type)
    since = known.last_transition_time if known is not None and known.status == wanted.status else None
    made = Condition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
        last_transition_time=since or Time(rfc3339(now)),
        observed_generation=wanted.observed_generation,
    )
    if known is None:
        return [*conditions, made]
    return [made if each is known else each for each in conditions]
