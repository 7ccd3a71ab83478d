"""What the autoscaler has to say about a deployment: metrics that cannot be read, and a number that is held back."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.compute.answers import Line
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.decide import reasons
from tarmac.decide.explain.answer import told
from tarmac.decide.verdict import Refusal

# Fewer than minReplicas is what minReplicas is for, and a window that passes is no news.
_TOLD = (
    reasons.METRICS_UNAVAILABLE,
    reasons.TOO_FEW_METRICS,
    reasons.TOO_MANY_REPLICAS,
    reasons.SCALE_RATE_LIMITED,
)


def autoscaling_lines(deployment: WorkloadDeployment) -> Iterator[Line]:
    """Its own conditions: what metrics say is known to nobody else."""
    for condition in deployment.status.conditions if deployment.status else ():
        if condition.reason in _TOLD:
            refusal = Refusal(condition.reason, condition.message, rule="autoscaling")
            yield told(refusal, deployment.spec.city_code)
