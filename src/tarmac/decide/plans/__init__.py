"""Plans: the effects of a manifest that is not applied, for Workloads, external services and public addresses.

The controllers' deciding functions run on a snapshot plus the change: which deployments follow, which Instances those
would create, replace and delete, and if quotas and nodes have room for them. A plan shows the final state, not the
steps toward it: a rollout that takes an hour is a number of replacements. Of the steps only the first is checked:
whether the instances to create first have room beside those that may not be deleted yet.
"""

from __future__ import annotations

from tarmac.decide.plans.batch import as_known, planned_workload, read_workloads
from tarmac.decide.plans.egress import plan_external
from tarmac.decide.plans.ingress import plan_ingress
from tarmac.decide.plans.others import SEEN, laid_over, resource_of

__all__ = [
    "SEEN",
    "as_known",
    "laid_over",
    "plan_external",
    "plan_ingress",
    "planned_workload",
    "read_workloads",
    "resource_of",
]
