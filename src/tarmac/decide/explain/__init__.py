"""Why an object is as it is: one sentence, the verdicts behind it by city and node, and the smallest change.

Explanations are worked out anew from a snapshot by the functions that decide, not remembered from when they decided; so
they are true of now, need no log, and the same code answers on our own server (as the subresource `why`) and on lists
fetched from any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tarmac.api.compute.whyandplan import Explanation
from tarmac.decide.explain.deployments import explain_deployment
from tarmac.decide.explain.instances import explain_instance
from tarmac.decide.explain.nodes import explain_node
from tarmac.decide.explain.pods import explain_pod
from tarmac.decide.explain.workloads import explain_workload
from tarmac.decide.snapshot.snapshot import (
    DEPLOYMENTS,
    EVERYTHING,
    INSTANCES,
    NODES,
    PODS,
    WORKLOADS,
    Objects,
    Snapshot,
)

EXPLAINERS: Mapping[str, Callable[[Snapshot, str], Explanation | None]] = {
    WORKLOADS.resource: explain_workload,
    DEPLOYMENTS.resource: explain_deployment,
    INSTANCES.resource: explain_instance,
    PODS.resource: explain_pod,
    NODES.resource: explain_node,
}
"""By resource, for an object's key."""

__all__ = ["EVERYTHING", "EXPLAINERS", "Objects", "Snapshot"]
