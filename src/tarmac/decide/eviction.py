"""Rules for applying disruption budgets to the eviction of a pod, as in Kubernetes.

The server uses these functions to decide on evictions, and explanations use them to predict its decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tarmac.api.conditions import is_true
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.base.selectors import LabelMatcher


def needs_no_budget(pod: JsonObject) -> bool:
    """Return True if the eviction needs no budget: the pod has ended, not started, is being deleted or is a mirror."""
    phase, metadata = (pod.get("status") or {}).get("phase"), pod["metadata"]
    return phase in (*TERMINAL, "Pending") or "deletionTimestamp" in metadata or is_mirror(metadata.get("annotations"))


def budgets_of(pod: JsonObject, budgets: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the budgets, among those of the pod's namespace, that select the pod."""
    labels = pod["metadata"].get("labels") or {}
    for budget in budgets:
        if LabelMatcher.from_object((budget.get("spec") or {}).get("selector")).matches(labels):
            yield budget


def ignores(budget: JsonObject, pod: JsonObject) -> bool:
    """Return True if the budget does not protect the pod: it is not ready, and enough healthy pods exist.

    With AlwaysAllow, every pod that is not ready is unprotected.
    """
    if is_true(pod, "Ready"):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy", 0)
    return status.get("currentHealthy", 0) >= desired > 0


def is_counted(budget: JsonObject) -> bool:
    """Return True if the budget's status describes its current generation."""
    status = budget.get("status") or {}
    return status.get("observedGeneration", 0) >= budget["metadata"].get("generation", 0)
