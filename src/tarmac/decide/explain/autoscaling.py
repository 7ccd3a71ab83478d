"""Explains a deployment's number of replicas: unreadable metrics, and a number held back by its bounds.

The number may come from the autoscaler or from a person.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.explanations import Line
from tarmac.api.compute.workload import WorkloadDeployment, WorkloadDeploymentSpec
from tarmac.decide import reasons
from tarmac.decide.explain.answer import told
from tarmac.decide.rollout import desired_replicas
from tarmac.decide.verdict import Refusal

# Left out: minReplicas, which holds the number up on purpose, and stabilization windows, which pass by themselves.
_TOLD = (
    reasons.METRICS_UNAVAILABLE,
    reasons.TOO_FEW_METRICS,
    reasons.TOO_MANY_REPLICAS,
    reasons.SCALE_RATE_LIMITED,
)


def autoscaling_lines(deployment: WorkloadDeployment) -> Iterator[Line]:
    """Yield lines from the deployment's conditions, the only place where the state of its metrics is recorded."""
    for condition in deployment.status.conditions if deployment.status else ():
        if condition.reason in _TOLD:
            refusal = Refusal(condition.reason, condition.message, rule="autoscaling")
            yield told(refusal, deployment.spec.city_code)
    refusal = _out_of_bounds(deployment.spec)
    if refusal is not None:
        yield told(refusal, deployment.spec.city_code)


def _out_of_bounds(spec: WorkloadDeploymentSpec) -> Refusal | None:
    """Return a refusal if the deployment was scaled to a number outside the bounds of its placement."""
    asked, runs = spec.replicas, desired_replicas(spec.scale_settings, spec.replicas)
    if asked is None or asked == runs:
        return None
    high = asked > runs
    bound, verb = ("maxReplicas", "Raise") if high else ("minReplicas", "Lower")
    return Refusal(
        reasons.TOO_MANY_REPLICAS if high else reasons.TOO_FEW_REPLICAS,
        f"It was scaled to {asked}; {bound} is {runs}, so {runs} run.",
        rule="scale",
        change=f"{verb} {bound} of the placement {spec.placement_name} to {max(asked, 1)}, or scale to {runs}.",
    )
