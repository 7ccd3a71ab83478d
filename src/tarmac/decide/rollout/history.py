"""Revisions of a template: numbered, newest last, with undo.

Numbers only grow. An undo creates a new revision with an old template, so the history records the order of events, and
a second undo returns to the revision before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.decide import reasons
from tarmac.decide.rollout.template import template_hash
from tarmac.decide.verdict import Refusal, Verdict

KEPT_REVISIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Revision:
    """One template that was rolled out, when its rollout began, and when it was first complete.

    `template` says where the template is stored, as in `RevisionRecord`; empty until it is stored.
    """

    number: int
    template_hash: str
    created: float
    completed: float | None = None
    template: str = ""


def record(history: Sequence[Revision], template: InstanceTemplate, now: float) -> tuple[Revision, ...]:
    """Return the history with the template as its newest revision; unchanged when it already is the newest."""
    written = template_hash(template)
    newest = history[-1] if history else None
    if newest is not None and newest.template_hash == written:
        return tuple(history)
    number = newest.number + 1 if newest else 1
    return (*history, Revision(number, written, now))[-KEPT_REVISIONS:]


def complete(history: Sequence[Revision], now: float) -> tuple[Revision, ...]:
    """Return the history with its newest revision marked complete. An earlier completion time is kept."""
    *earlier, newest = history
    return (*earlier, newest if newest.completed is not None else replace(newest, completed=now))


def fallback(history: Sequence[Revision]) -> Revision | None:
    """Return the revision to roll back to: the last complete one, or else the one before the newest."""
    earlier = history[:-1]
    found = (revision for revision in reversed(earlier) if revision.completed is not None)
    return next(found, earlier[-1] if earlier else None)


def undo(history: Sequence[Revision], to: int | None = None) -> Verdict[Revision]:
    """Return the revision to write again: the one before the newest, or the one with the given number."""
    if to is None:
        if len(history) > 1:
            return Verdict(history[-2])
        return Verdict(None, (_refusal("There is no earlier revision.", "Change the template; then there is one."),))
    found = next((revision for revision in history if revision.number == to), None)
    if found is not None:
        return Verdict(found)
    kept = f"Choose one of {history[0].number} to {history[-1].number}." if history else ""
    return Verdict(None, (_refusal(f"Revision {to} is not in the history.", kept),))


def _refusal(message: str, change: str) -> Refusal:
    return Refusal(reasons.REVISION_NOT_FOUND, message, rule="rollout.history", change=change)
