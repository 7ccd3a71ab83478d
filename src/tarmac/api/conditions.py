"""Conditions: one entry per type; lastTransitionTime changes only with the status.

Conditions occur in two forms. Decoded ones (of `api.shared`, or a reader's own projection with `type` and `status`) are
read with `find` and `holds`, and written with `with_condition`. Those of an encoded object, plain dictionaries, are
read with `condition_of` and `is_true`, and written with `replaced`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from tarmac.api.declare import Time
from tarmac.api.schema import JsonObject
from tarmac.api.shared import Condition
from tarmac.base.clock import rfc3339

Truth = Literal["True", "False", "Unknown"]


class Typed(Protocol):
    """A condition in any decoded form."""

    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...


C = TypeVar("C", bound=Typed)


def truth(holds: bool) -> Truth:
    """Return the status of a condition as the API writes it."""
    return "True" if holds else "False"


def find(conditions: Iterable[C] | None, type: str) -> C | None:
    """Return the condition of a type, or None."""
    for each in conditions or ():
        if each.type == type:
            return each
    return None


def holds(conditions: Iterable[Typed] | None, type: str) -> bool:
    """Return True if the condition is present and its status is True."""
    found = find(conditions, type)
    return found is not None and found.status == "True"


def with_condition(conditions: Sequence[Condition], wanted: Condition, now: float) -> list[Condition]:
    """Return the conditions with `wanted` in place of the one of its type, or appended. The order is kept."""
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


def stated(conditions: Iterable[JsonObject] | None, type: str) -> JsonObject:
    """Return the encoded condition of a type, or an empty object."""
    for each in conditions or ():
        if each.get("type") == type:
            return each
    return {}


def condition_of(obj: JsonObject | None, type: str) -> JsonObject:
    """Return a condition of an encoded object, or an empty object."""
    return stated(((obj or {}).get("status") or {}).get("conditions"), type)


def is_true(obj: JsonObject | None, type: str) -> bool:
    """Return True if the condition of an encoded object has status True."""
    return condition_of(obj, type).get("status") == "True"


def replaced(conditions: Iterable[JsonObject] | None, made: JsonObject) -> list[JsonObject]:
    """Return the encoded conditions without any of this type, followed by this one."""
    return [*(each for each in conditions or () if each["type"] != made["type"]), made]
