"""Builds the lines of an explanation from refusals and conditions, and the sentence that sums them up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tarmac.api.compute.explanations import Answer, Explanation, ExplanationLine, Subject
from tarmac.decide import reasons
from tarmac.decide.reasons import Actor
from tarmac.decide.remedies.usualchanges import usual_change
from tarmac.decide.rollup.conditions import Finding
from tarmac.decide.verdict import Refusal

_ANSWERS: Final[dict[Actor, Answer]] = {Actor.NONE: "Yes", Actor.TRANSIENT: "Wait"}
_WEIGHT: Final = {"Yes": 0, "Wait": 1, "No": 2}
_FEW: Final = 5


def refusal_line(refusal: Refusal, city: str = "", node: str = "") -> ExplanationLine:
    """Convert a refusal to a line."""
    reason = refusal.reason
    change = refusal.change or usual_change(reason, refusal.message)
    return ExplanationLine(answer_of(reason), reason, sentence(refusal.message), refusal.rule, city, node, change)


def finding_line(finding: Finding, city: str = "", node: str = "") -> ExplanationLine:
    """Convert a condition to a line."""
    rule = finding.type.lower()
    if finding.holds:
        return yes(finding.reason, finding.message, rule, city, node)
    return refusal_line(Refusal(finding.reason, finding.message, rule=rule), city, node)


def yes(reason: str, message: str, rule: str, city: str = "", node: str = "") -> ExplanationLine:
    """Return a line for a positive finding."""
    return ExplanationLine("Yes", reason, sentence(message), rule, city, node)


def explanation(subject: Subject, state: str, lines: Sequence[ExplanationLine]) -> Explanation:
    """Build an explanation. Its sentence is the state and, after a colon, the message of the most telling line."""
    top = most_actionable_line(lines)
    if top is None or top.answer == "Yes":
        return Explanation(subject, f"{subject} {state}.", list(lines))
    where = f"; in {top.city}" if top.city and subject.kind == "Workload" else ""
    return Explanation(subject, f"{subject} {state}{where}: {top.message}", list(lines), _changes(lines, top))


def _changes(lines: Iterable[ExplanationLine], top: ExplanationLine) -> str:
    """Return the changes for the most telling line and for the same reason in other cities, without duplicates."""
    alike = [line for line in lines if (line.answer, line.reason, line.rule) == (top.answer, top.reason, top.rule)]
    changes = list(dict.fromkeys(line.change for line in alike if line.change))
    more = len(changes) - _FEW
    return " ".join(changes[:_FEW]) + (f" And so on, {more} more." if more > 0 else "")


def most_actionable_line(lines: Iterable[ExplanationLine]) -> ExplanationLine | None:
    """Return the line that a person can do most about; the first one of equals."""
    return max(lines, key=lambda line: (_WEIGHT[line.answer], reasons.priority(line.reason)), default=None)


def answer_of(reason: str) -> Answer:
    """Return Yes, Wait (the reason passes by itself) or No (a person has to act).

    An unknown code is a failure, hence No.
    """
    known = reasons.CATALOGUE.get(reason)
    return _ANSWERS.get(known.actor, "No") if known is not None else "No"


def sentence(text: str) -> str:
    """Return the text with a final period, unless it already ends with punctuation."""
    text = text.strip()
    return text if not text or text[-1] in ".!?" else f"{text}."


def with_conflict(found: Explanation | None, subject: Subject, message: str, node: str) -> Explanation:
    """Return the explanation with the conflict placed first. The object itself may be missing from the store."""
    line = refusal_line(Refusal(reasons.RESTORED_CONFLICT, message, rule="restored"), "", node)
    if found is None:
        return explanation(subject, "is not in the store", [line])
    return explanation(found.object, "is not what runs", [line, *found.verdicts])
