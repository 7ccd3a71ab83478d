"""Why a pod or an instance is not what runs: the store was restored from a backup, and a node runs something newer."""

from __future__ import annotations

from tarmac.api.compute.whyandplan import Explanation, Subject
from tarmac.decide import reasons
from tarmac.decide.explain.answer import explanation, told
from tarmac.decide.verdict import Refusal


def with_conflict(found: Explanation | None, subject: Subject, message: str, node: str) -> Explanation:
    """What there is to say otherwise, and the conflict before it. The object itself may not be stored at all."""
    line = told(Refusal(reasons.RESTORED_CONFLICT, message, rule="restored"), "", node)
    if found is None:
        return explanation(subject, "is not in the store", [line])
    return explanation(found.object, "is not what runs", [line, *found.verdicts])
