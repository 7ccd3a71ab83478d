"""Names the owner of a Pod among Kubernetes' own kinds, and the failures that it reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.explain.answer import refusal_line, yes
from tarmac.decide.snapshot.snapshot import POD_CONTROLLERS, Snapshot
from tarmac.decide.verdict import Refusal

# conditions that are a failure when they are True, and those that are one when they are False
_BAD: Final = ("ReplicaFailure", "Failed", "FailureTarget")
_GOOD: Final = ("Available", "Progressing")


def condition_lines(kind: str, obj: JsonObject) -> Iterator[ExplanationLine]:
    """Yield a line for each condition that reports a failure."""
    name = f"{kind} {obj['metadata']['name']}"
    for condition in (obj.get("status") or {}).get("conditions") or ():
        of_type, status = condition.get("type", ""), condition.get("status", "")
        if (of_type in _BAD and status == "True") or (of_type in _GOOD and status == "False"):
            detail = condition.get("message") or "no message"
            message = f"{name} reports {of_type}={status} ({condition.get('reason') or 'no reason'}): {detail}"
            yield refusal_line(Refusal(reasons.OWNER_FAILED, message, rule=of_type.lower()))


def owner_lines(snapshot: Snapshot, pod: JsonObject) -> Iterator[ExplanationLine]:
    """Yield lines about the owner of a pod, and the owner of that: their names, and the failures they report."""
    kind, owner = _owner(snapshot, pod)
    if owner is None:
        return
    found = [(kind, owner)]
    above, owner = _owner(snapshot, owner)
    if owner is not None:
        found.append((above, owner))
    names = " of ".join(f"{kind} {each['metadata']['name']}" for kind, each in found)
    yield yes(reasons.OWNED, f"It belongs to {names}.", "owner")
    for kind, each in found:
        yield from condition_lines(kind, each)


def _owner(snapshot: Snapshot, obj: JsonObject) -> tuple[str, JsonObject | None]:
    reference = next((each for each in obj["metadata"].get("ownerReferences") or () if each.get("controller")), None)
    if reference is None or reference["kind"] not in POD_CONTROLLERS:
        return "", None
    source = POD_CONTROLLERS[reference["kind"]]
    owner = source.get(snapshot, f"{obj['metadata']['namespace']}/{reference['name']}")
    # By uid: an object made again under the name does not own this one.
    same = owner is not None and owner["metadata"].get("uid") == reference["uid"]
    return reference["kind"], owner if same else None
