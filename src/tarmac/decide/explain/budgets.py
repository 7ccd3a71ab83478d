"""Explains the effect of disruption budgets on the eviction of a pod from a node that is being drained."""

from __future__ import annotations

from tarmac.api.compute.explanations import ExplanationLine
from tarmac.api.schema import JsonObject
from tarmac.decide import reasons
from tarmac.decide.eviction import budgets_of, ignores, is_counted, needs_no_budget
from tarmac.decide.explain.answer import refusal_line
from tarmac.decide.snapshot.snapshot import BUDGETS, NODES, Snapshot
from tarmac.decide.verdict import Refusal

_RULE = "disruptionbudget"


def drain_lines(snapshot: Snapshot, pod: JsonObject, city: str) -> list[ExplanationLine]:
    """Return a line if the pod's node is cordoned and a budget blocks the pod's eviction."""
    node = pod["spec"].get("nodeName", "")
    known = NODES.get(snapshot, node) if node else None
    refusal = held_by(snapshot, pod) if known is not None and known["spec"].get("unschedulable") else None
    return [refusal_line(refusal, city, node)] if refusal is not None else []


def held_by(snapshot: Snapshot, pod: JsonObject) -> Refusal | None:
    """Return the reason why the pod cannot be evicted now; None when it can."""
    if needs_no_budget(pod):
        return None
    found = list(budgets_of(pod, BUDGETS.all(snapshot, pod["metadata"]["namespace"])))
    if len(found) > 1:
        names = ", ".join(sorted(budget["metadata"]["name"] for budget in found))
        message = f"It cannot be evicted from its cordoned node: several disruption budgets select it ({names})."
        return Refusal(reasons.EVICTION_REFUSED, message, rule=_RULE, change=f"Leave one of the budgets {names}.")
    if not found or ignores(found[0], pod) or (found[0].get("status") or {}).get("disruptionsAllowed", 0) > 0:
        return None
    return _short(found[0])


def _short(budget: JsonObject) -> Refusal:
    """Return the refusal of a budget that allows no disruption: temporary, or permanent until the budget is changed."""
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if not is_counted(budget):
        message = f"The disruption budget {name} is being counted anew; until then it does not leave its cordoned node."
        return Refusal(reasons.EVICTION_WAITS, message, rule=_RULE)
    expected, desired = status.get("expectedPods", 0), status.get("desiredHealthy", 0)
    numbers = f"{desired} of {expected} have to be healthy, and {status.get('currentHealthy', 0)} are"
    if desired < expected:
        message = f"The disruption budget {name} does not let it leave its cordoned node yet: {numbers}."
        return Refusal(reasons.EVICTION_WAITS, message, rule=_RULE)
    message = f"The disruption budget {name} never lets it leave its cordoned node: {numbers}."
    return Refusal(reasons.EVICTION_REFUSED, message, rule=_RULE, change=_change(name, budget["spec"]))


def _change(name: str, spec: JsonObject) -> str:
    """Return the change that allows one eviction. With a percentage or maxUnavailable, one more pod would not help."""
    if spec.get("maxUnavailable") is not None:
        return f"Raise maxUnavailable of {name}."
    return f"Lower minAvailable of {name}{', or run one more' if isinstance(spec.get('minAvailable'), int) else ''}."
