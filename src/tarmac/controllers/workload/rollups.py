"""Decisions of the last full pass over a Workload, with running sums over its deployments.

A full pass computes goal, waves and changes from every deployment. Most changes of deployments are counters, which none
of these depend on: they are added to the sums, and only the status is computed again. All other changes wait for the
next full pass, which discards the sums and starts again from the objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.decide.derived.goal import WorkloadGoal
from tarmac.decide.rollout import Revision
from tarmac.decide.rollout.city import is_complete, revision_of
from tarmac.decide.rollout.waves import Waves
from tarmac.decide.rollup import DeploymentTally, DeploymentView, PlacementFacts, WorkloadFacts
from tarmac.decide.verdict import Refusal


@dataclass(frozen=True, slots=True)
class PassDecisions:
    """The decisions of a full pass, and the Workload they are about."""

    workload: Workload
    history: Sequence[Revision]
    goal: WorkloadGoal
    waves: Waves
    blocks: Sequence[Refusal]


class Rollup:
    """The sums over one Workload's deployments, and its status as a function of them."""

    def __init__(self, decided: PassDecisions, deployments: Mapping[str, WorkloadDeployment]) -> None:
        self.decided = decided
        self.changes = 0  # absorbed changes
        self._newest = decided.history[-1].template_hash
        self._orphans = DeploymentTally()
        self._tallies = {placement.name: DeploymentTally() for placement in decided.workload.spec.placements}
        self._bases: dict[str, tuple[object, ...]] = {}
        for deployment in deployments.values():
            self._put(deployment)

    def __len__(self) -> int:
        return len(self._bases)

    def fits(self, workload: Workload) -> bool:
        """Return True if the decisions hold for this version of the Workload."""
        return _basis_of_workload(workload) == _basis_of_workload(self.decided.workload)

    def absorb(self, deployment: WorkloadDeployment) -> bool:
        """Add a deployment's new counters. Return False when it requires a full pass."""
        name = deployment.metadata.name
        # A field that decisions depend on has changed: the sums alone would be wrong.
        if self._bases.get(name) != self._basis(deployment):
            return False
        self._put(deployment)
        self.changes += 1
        return True

    def facts(self, workload: Workload, *, announces: bool) -> WorkloadFacts:
        """Return the input of the status. `announces`: the controller of shared addresses runs."""
        decided, goal = self.decided, self.decided.goal
        return WorkloadFacts(
            generation=workload.metadata.generation,
            revision=self._newest,
            waves=decided.waves,
            placements=[
                PlacementFacts(name=name, cities=cities, deployments=self._tallies[name], blocks=goal.blocks[name])
                for name, cities in goal.cities.items()
            ],
            orphans=self._orphans,
            blocks=decided.blocks,
            anycast=_requests_anycast(workload),
            announces=announces,
            paused=workload.spec.paused,
            deleting=workload.metadata.deletion_timestamp is not None,
        )

    def _put(self, deployment: WorkloadDeployment) -> None:
        name = deployment.metadata.name
        leaving = name not in self.decided.goal.children
        tally = self._tallies.get(deployment.spec.placement_name, self._orphans)
        tally.put(name, DeploymentView.of(deployment, self._newest, leaving=leaving))
        self._bases[name] = self._basis(deployment)

    def _basis(self, deployment: WorkloadDeployment) -> tuple[object, ...]:
        """Return all fields of a deployment that goal, waves and changes depend on."""
        own, status = deployment.metadata, deployment.status
        basis = (
            own.uid,
            own.generation,
            own.labels,
            own.deletion_timestamp,
            status.location.name if status is not None and status.location is not None else "",
            revision_of(deployment),
        )
        if not self.decided.waves.watching:
            return basis
        return *basis, is_complete(deployment), status.start_failure if status is not None else None


def _basis_of_workload(workload: Workload) -> tuple[object, ...]:
    """Return all fields of a Workload that decisions depend on; of its status, only the rollout's record."""
    own, status = workload.metadata, workload.status
    recorded = (status.revision, status.revisions, status.rollout) if status is not None else None
    return own.uid, own.generation, own.deletion_timestamp, own.finalizers, _requests_anycast(workload), recorded


def _requests_anycast(workload: Workload) -> bool:
    return workload.metadata.annotations.get(ANNOTATION_ANYCAST) == "true"
