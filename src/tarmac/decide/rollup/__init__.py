"""Status from the bottom up: Pod → Instance → WorkloadDeployment → placement → Workload.

Status describes only the objects it was computed from: counters are those of all deployments, a placement of the
specification is always reported, and unchanged objects give an unchanged status, so that nothing is written. A
condition keeps its transition time until its status flips.

`Available` says if any instance serves, `Progressing` if the wanted state is being reached. When the status is False,
the most actionable reason below becomes the reason above, with its message, and the message names the city.
"""

from __future__ import annotations

from tarmac.decide.rollup.conditions import Finding, merge
from tarmac.decide.rollup.deployment import DeploymentFacts, deployment_status
from tarmac.decide.rollup.instance import InstanceInput, instance_status
from tarmac.decide.rollup.podprogress import InstancePod, PodProgress, read_pod
from tarmac.decide.rollup.tally import DeploymentTally
from tarmac.decide.rollup.view import DeploymentView
from tarmac.decide.rollup.workload import PlacementFacts, WorkloadFacts, workload_status

__all__ = [
    "DeploymentFacts",
    "DeploymentTally",
    "DeploymentView",
    "Finding",
    "InstanceInput",
    "InstancePod",
    "PlacementFacts",
    "PodProgress",
    "WorkloadFacts",
    "deployment_status",
    "instance_status",
    "merge",
    "read_pod",
    "workload_status",
]
