"""Evicting a pod, within its disruption budgets."""

from __future__ import annotations

from tests.differential.shared import BUDGETS, PODS, meta, pod
from tests.differential.steps import MERGE_PATCH, Json, create, feature, get, patch

_LABELS = {"app": "x"}
_BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": meta("b"),
    "spec": {"minAvailable": 1, "selector": {"matchLabels": _LABELS}},
}
_READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
_RUNNING = (
    create(PODS, pod(spec={"nodeName": "n1"}, labels=_LABELS)),
    patch(MERGE_PATCH, f"{PODS}/a/status", {"status": _READY}),
)


def _evict(name: str = "a", query: str = "", **more: Json) -> Json:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta(name), **more}
    return create(f"{PODS}/a/eviction{query}", body)


def _allowing(disruptions: int) -> Json:
    status = {
        "disruptionsAllowed": disruptions,
        "observedGeneration": 1,
        "currentHealthy": 1 + disruptions,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    return patch(MERGE_PATCH, f"{BUDGETS}/b/status", {"status": status})


CASES = feature(
    "eviction",
    without_a_budget=(create(PODS, pod()), _evict(), get(f"{PODS}/a")),
    of_a_running_pod=(*_RUNNING, _evict(), get(f"{PODS}/a")),
    that_the_budget_allows=(create(BUDGETS, _BUDGET), _allowing(1), *_RUNNING, _evict(), get(f"{BUDGETS}/b")),
    that_the_budget_refuses=(create(BUDGETS, _BUDGET), _allowing(0), *_RUNNING, _evict(), get(f"{PODS}/a")),
    under_a_budget_nobody_observed=(create(BUDGETS, _BUDGET), *_RUNNING, _evict()),
    of_a_pending_pod_asks_no_budget=(create(BUDGETS, _BUDGET), create(PODS, pod(labels=_LABELS)), _evict()),
    under_two_budgets=(
        create(BUDGETS, _BUDGET),
        create(BUDGETS, {**_BUDGET, "metadata": meta("c")}),
        *_RUNNING,
        _evict(),
    ),
    with_delete_options=(*_RUNNING, _evict(deleteOptions={"gracePeriodSeconds": 3}), get(f"{PODS}/a")),
    in_a_dry_run=(create(PODS, pod()), _evict(query="?dryRun=All"), get(f"{PODS}/a")),
    of_the_old_version=(
        create(PODS, pod()),
        create(f"{PODS}/a/eviction", {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": meta("a")}),
    ),
    under_another_name=(create(PODS, pod()), _evict("b")),
    from_another_namespace=(create(PODS, pod()), create(f"{PODS}/a/eviction", {"metadata": meta("a", namespace="b")})),
    of_nothing=_evict(),
)
