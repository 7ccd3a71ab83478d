"""What a manifest would do, without doing it: a Workload's city by city, and those of external services.

The functions that controllers decide with are run on a snapshot plus the change: which deployments follow, which
Instances those would make, replace and delete, whether quotas and nodes have room for them. What a plan shows is where
things end, not the steps on the way there: a rollout that takes an hour is as many replacements. Of the way, only its
beginning is looked at: whether what has to be made first has room beside what may not go yet.
"""

from __future__ import annotations

from tarmac.decide.plans.external import plan_external
from tarmac.decide.plans.others import SEEN, laid_over, resource_of
from tarmac.decide.plans.together import as_known, carried_out, read_workloads
from tarmac.decide.plans.workload import plan_workload

__all__ = [
    "SEEN",
    "as_known",
    "carried_out",
    "laid_over",
    "plan_external",
    "plan_workload",
    "read_workloads",
    "resource_of",
]
