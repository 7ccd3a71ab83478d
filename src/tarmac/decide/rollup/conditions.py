"""Conditions: merges findings into existing conditions, and selects the most actionable of several reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tarmac.api.conditions import with_condition
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.reasons import Actor
from tarmac.decide.verdict import Refusal


@dataclass(frozen=True, slots=True)
class Finding:
    """The new status, reason and message of one condition."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """True if the condition's status is True."""
        return self.status == "True"


def merge(old: Sequence[Condition], findings: Iterable[Finding], generation: int, now: float) -> list[Condition]:
    """Return the conditions with the findings merged in.

    Conditions of other controllers are kept, and so is the transition time of a status that did not flip.
    """
    merged = list(old)
    for found in findings:
        condition = Condition(found.type, found.status, found.reason, found.message, observed_generation=generation)
        merged = with_condition(merged, condition, now)
    return merged


def most_actionable(refusals: Iterable[Refusal]) -> Refusal | None:
    """Return the refusal that a person can do most about; the first one of equals."""
    return max(refusals, key=lambda refusal: reasons.priority(refusal.reason), default=None)


def is_specific(reason: str) -> bool:
    """Return True if a child's reason says more than that it is in progress."""
    return reasons.priority(reason) > reasons.priority(reasons.PROVISIONING_NETWORK)


def is_blocking(reason: str) -> bool:
    """Return True if a person has to act. A reason that is not in the catalogue is a provider's failure, and blocks."""
    known = reasons.CATALOGUE.get(reason)
    return is_specific(reason) and (known is None or known.actor is not Actor.TRANSIENT)
