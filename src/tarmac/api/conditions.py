"""Conditions: one entry per type, whose time moves only when its status flips.

They are met in two forms. Decoded ones (of `api.shared`, or a reader's own projection with `type` and `status`) are
asked with `find` and `holds`, and written with `with_condition`. Those of an encoded object, plain dictionaries, are
asked with `condition_of` and `is_true`, and written with `replaced`.
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
    """How a condition says yes or no."""
    return "True" if holds else "False"


def find(conditions: Iterable[C] | None, type: str) -> C | None:
    """The condition of a type."""
    for each in conditions or ():
        if each.type == type:
            return each
    return None


def holds(conditions: Iterable[Typed] | None, type: str) -> bool:
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


def stated(conditions: Iterable[JsonObject] | None, type: str) -> JsonObject:
    """The encoded condition of a type; empty when there is none."""
    for each in conditions or ():
        if each.get("type") == type:
            return each
    return {}


def condition_of(obj: JsonObject | None, type: str) -> JsonObject:
    """A condition of an encoded object; empty when there is none."""
    return stated(((obj or {}).get("status") or {}).get("conditions"), type)


def is_true(obj: JsonObject | None, type: str) -> bool:
    """Whether a condition of an encoded object is True."""
    return condition_of(obj, type).get("status") == "True"


def replaced(conditions: Iterable[JsonObject] | None, made: JsonObject) -> list[JsonObject]:
    """The encoded conditions with this one, as the last, in place of another of its type."""
    return [*(each for each in conditions or () if each["type"] != made["type"]), made]
