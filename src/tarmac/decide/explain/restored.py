"""Explains a conflict after a restore: the store is older than the pod or instance that a node runs."""

from __future__ import annotations

from tarmac.api.compute.explanations import Explanation, Subject
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, told
from tarmac.decide.verdict import Refusal


def with_conflict(found: Explanation | None, subject: Subject, message: str, node: str) -> Explanation:
    """Return the explanation with the conflict placed first. The object itself may be missing from the store."""
    line = told(Refusal(reasons.RESTORED_CONFLICT, message, rule="restored"), "", node)
    if found is None:
        return explanation(subject, "is not in the store", [line])
    return explanation(found.object, "is not what runs", [line, *found.verdicts])
