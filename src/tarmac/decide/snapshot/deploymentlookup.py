"""Finds the deployments of a Workload by their owner label."""

from __future__ import annotations

from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS, Snapshot


def deployments_of(snapshot: Snapshot, workload: Workload) -> list[WorkloadDeployment]:
    """Return the WorkloadDeployments of a Workload."""
    own = workload.metadata
    found = DEPLOYMENTS.all(snapshot, own.namespace)
    return [each for each in found if own.uid and each.metadata.labels.get(LABEL_WORKLOAD_UID) == own.uid]
