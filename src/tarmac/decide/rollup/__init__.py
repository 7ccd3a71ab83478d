"""Status from the bottom up: Pod → Instance → WorkloadDeployment → placement → Workload.

Status says what is true of the objects it was computed from, and nothing else: counters are counted anew each time, a
placement of the specification is always reported, and an unchanged world gives an unchanged status, so that nothing is
written. A condition keeps its transition time until its status flips.

`Available` asks whether anything serves, `Progressing` whether what is wanted is being reached. When the answer is no,
the most actionable reason below becomes the reason above, with its message, and the message names the city.
"""

from __future__ import annotations

from tarmac.decide.rollup.conditions import Finding, merge
from tarmac.decide.rollup.deployment import DeploymentFacts, deployment_status
from tarmac.decide.rollup.instance import InstanceInput, instance_status
from tarmac.decide.rollup.pods import InstancePod, PodView, read_pod
from tarmac.decide.rollup.workload import DeploymentView, PlacementFacts, WorkloadFacts, workload_status

__all__ = [
    "DeploymentFacts",
    "DeploymentView",
    "Finding",
    "InstanceInput",
    "InstancePod",
    "PlacementFacts",
    "PodView",
    "WorkloadFacts",
    "deployment_status",
    "instance_status",
    "merge",
    "read_pod",
    "workload_status",
]
