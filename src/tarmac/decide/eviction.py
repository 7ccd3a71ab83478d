"""Whether the eviction of a pod asks its disruption budget, and what the budget says, as Kubernetes decides it.

The server decides with these functions when somebody evicts, and explanations say with them what it would decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarmac.api.conditions import is_true
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelSelector


def needs_no_budget(pod: JsonObject) -> bool:
    """A pod that has ended, has not begun or goes already costs no budget anything."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in (*TERMINAL, "Pending") or "deletionTimestamp" in pod["metadata"]


def budgets_of(pod: JsonObject, budgets: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Those of the pod's namespace that select it."""
    labels = pod["metadata"].get("labels") or {}
    for budget in budgets:
        if LabelSelector.from_object((budget.get("spec") or {}).get("selector")).matches(labels):
            yield budget


def ignores(budget: JsonObject, pod: JsonObject) -> bool:
    """A pod that is not ready is not what the budget protects, unless the budget is already short."""
    if is_true(pod, "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return status.get("currentHealthy", 0) >= desired > 0


def is_counted(budget: JsonObject) -> bool:
    """Whether the budget's numbers are about the budget as it is now."""
    status = budget.get("status") or {}
    return status.get("observedGeneration", 0) >= budget["metadata"].get("generation", 0)
