"""The result of every decision: a value, or the reasons why there is none and the smallest change that would help.

Controllers turn verdicts into conditions and events, `tarmac why` and `tarmac plan` show them, and the simulator checks
them; so a preview cannot differ from the actual result, and every "no" has an explanation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One "no". `reason` is a code of `tarmac.decide.reasons`; `where` is the city, node or object it is about."""

    reason: str
    message: str
    where: str = ""
    rule: str = ""  # the filter or check that refused
    change: str = ""  # the smallest change that would make it a yes, as a sentence


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """A decision. `value` is None when it is a "no"; refusals may also accompany a "yes" (skipped places)."""

    value: T | None
    refusals: tuple[Refusal, ...] = ()

    @property
    def decided(self) -> bool:
        """True if there is a value."""
        return self.value is not None
