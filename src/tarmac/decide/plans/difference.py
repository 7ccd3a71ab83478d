"""The difference between the existing Instances of one deployment and the wanted ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tarmac.api.compute.explanations import CityPlan, Ending, Refused
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.shared import ResourceList
from tarmac.decide.instances import InstanceView
from tarmac.decide.powerstate import is_stopped
from tarmac.decide.rollout import CityGoal
from tarmac.decide.scheduling import PreemptionCandidate
from tarmac.decide.verdict import Refusal


@dataclass(slots=True)
class Difference:
    """One deployment in its planned form. `unplaced` are ordinals of kept Instances that have no node yet."""

    deployment: WorkloadDeployment
    goal: CityGoal
    location: str = ""
    create: list[int] = field(default_factory=list[int])
    replace: list[InstanceView] = field(default_factory=list[InstanceView])
    delete: list[InstanceView] = field(default_factory=list[InstanceView])
    keep: list[InstanceView] = field(default_factory=list[InstanceView])
    unplaced: list[int] = field(default_factory=list[int])
    moved: bool = False
    wave: int = 0
    refused: list[Refused] = field(default_factory=list[Refused])
    endings: list[Ending] = field(default_factory=list[Ending])
    boot_disks: int = 0
    switches: bool = False  # the template's machines would be started or stopped
    victims: list[str] = field(default_factory=list[str])  # keys of the pods that would be preempted for it
    amounts: ResourceList = field(default_factory=ResourceList)  # resources of each of its Instances
    granted: list[int] = field(default_factory=list[int])  # ordinals that quotas leave room for
    placed: dict[str, str] = field(default_factory=dict[str, str])  # and their nodes, by `planned_uid`

    @property
    def city(self) -> str:
        """The deployment's city."""
        return self.deployment.spec.city_code

    @property
    def stopped(self) -> bool:
        """True if the template asks for stopped machines."""
        return is_stopped(self.deployment.spec.template.spec)

    @property
    def switched(self) -> list[InstanceView]:
        """Kept machines that would be started or stopped."""
        return [view for view in self.keep if view.stopped != self.stopped] if self.switches else []

    def would_stand_still(self, view: InstanceView) -> bool:
        """Return True if a kept Instance would be a stopped machine."""
        return self.stopped if self.switches else view.stopped

    @property
    def make(self) -> list[int]:
        """Ordinals of Instances that would be created."""
        return sorted([*self.create, *(view.ordinal for view in self.replace)])

    @property
    def wanted(self) -> list[int]:
        """Ordinals that need a node, and room in quotas."""
        return sorted([*self.make, *self.unplaced])

    @property
    def going(self) -> list[InstanceView]:
        """Instances that would be deleted or replaced."""
        return [*self.delete, *self.replace]

    @property
    def changes(self) -> bool:
        """True if the plan changes anything."""
        return bool(self.create or self.replace or self.delete or self.switched)

    def refuse(self, refusal: Refusal, count: int | None = None) -> None:
        """Record that instances cannot run: `count` of them, or all that would be created."""
        start = "" if count is None else f"{count} of {self.goal.desired} instances: "
        number = len(self.wanted) if count is None else count
        self.refused.append(Refused(refusal.reason, start + refusal.message, refusal.change, number))

    def end(self, candidate: PreemptionCandidate) -> None:
        """Record the pods that would be preempted for one of its instances."""
        own = [each.name for each in candidate.victims if each.namespace == self.deployment.metadata.namespace]
        others = len(candidate.victims) - len(own)
        self.endings.append(Ending(candidate.node, own, others, candidate.violations))
        self.victims += [f"{each.namespace}/{each.name}" for each in candidate.victims]

    def as_plan(self) -> CityPlan:
        """Return the numbers of the plan."""
        return CityPlan(
            self.city,
            len(self.create),
            len(self.replace),
            len(self.delete),
            len(self.keep),
            self.goal.desired if self.moved else 0,
            self.refused,
            self.wave if self.replace else 0,
            self.endings,
            self.boot_disks,
            len(self.switched) if self.stopped else 0,
            0 if self.stopped else len(self.switched),
        )


def planned_uid(deployment: WorkloadDeployment, ordinal: int) -> str:
    """Return the uid that identifies the Pod of a planned Instance."""
    return f"{deployment.metadata.namespace}/{deployment.metadata.name}/{ordinal}"


def difference(deployment: WorkloadDeployment, present: Iterable[InstanceView]) -> Difference:
    """Compute which existing Instances would be kept, replaced and deleted, and which would be created."""
    found = Difference(deployment, CityGoal.of(deployment.spec))
    taken: set[int] = set()
    for view in sorted(present, key=lambda view: (view.deleting, not view.ready, view.name)):
        if view.deleting or not 0 <= view.ordinal < found.goal.desired or view.ordinal in taken:
            found.delete.append(view)
            continue
        taken.add(view.ordinal)
        (found.keep if view.template_hash == found.goal.template_hash else found.replace).append(view)
    found.create = [ordinal for ordinal in range(found.goal.desired) if ordinal not in taken]
    return found
