"""Conditions: what is found out, merged into what was said before; and which of many reasons is worth showing."""

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
    """What is to be said of one condition."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str

    @property
    def holds(self) -> bool:
        """Whether it is true."""
        return self.status == "True"


def merge(old: Sequence[Condition], findings: Iterable[Finding], generation: int, now: float) -> list[Condition]:
    """The conditions with the findings in place; conditions of others stay, and so does a time that did not flip."""
    merged = list(old)
    for found in findings:
        said = Condition(found.type, found.status, found.reason, found.message, observed_generation=generation)
        merged = with_condition(merged, said, now)
    return merged


def most_actionable(refusals: Iterable[Refusal]) -> Refusal | None:
    """The one that a person can do most about; the first of equals."""
    return max(refusals, key=lambda refusal: reasons.priority(refusal.reason), default=None)


def is_telling(reason: str) -> bool:
    """Whether a child's reason says more than that things are under way."""
    return reasons.priority(reason) > reasons.priority(reasons.PROVISIONING_NETWORK)


def is_blocking(reason: str) -> bool:
    """Whether it needs somebody to act; what is not in the catalogue is a provider's failure."""
    known = reasons.CATALOGUE.get(reason)
    return is_telling(reason) and (known is None or known.actor is not Actor.TRANSIENT)
