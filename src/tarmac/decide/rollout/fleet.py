"""The instances of one city sorted into what a rollout does with them.

Ordinals below `desired` are the base; those above are the surge while the base still holds outdated instances, and
surplus otherwise. What has no ordinal, or shares one, is a stray.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tarmac.api.compute.workload import WorkloadDeploymentSpec
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout.bounds import DEFAULT_LIMITS, RolloutLimits, desired_replicas, limits
from tarmac.decide.rollout.template import template_hash


@dataclass(frozen=True, slots=True)
class Goal:
    """What a city's instances should become."""

    desired: int
    template_hash: str
    limits: RolloutLimits = DEFAULT_LIMITS
    ordered: bool = True
    paused: bool = False

    @staticmethod
    def of(spec: WorkloadDeploymentSpec) -> Goal:
        """What a deployment asks for."""
        desired = desired_replicas(spec.scale_settings, spec.replicas)
        return Goal(
            desired,
            template_hash(spec.template),
            limits(spec.rollout, desired),
            spec.scale_settings.instance_management_policy == "OrderedReady",
            spec.paused,
        )


class Fleet:
    """What exists, seen against a goal: how many are available, and how many more there is room for."""

    def __init__(self, goal: Goal, instances: Iterable[InstanceView]) -> None:
        self._goal = goal
        self.at: dict[int, InstanceView] = {}
        self.strays: list[InstanceView] = []
        for instance in instances:
            self._place(instance)
        self.deleting = [instance for instance in self.at.values() if instance.deleting]
        self.room = goal.desired + goal.limits.max_surge - (len(self.at) - len(self.deleting))
        self.available = sum(instance.ready and not instance.deleting for instance in self.at.values())
        self._to_replace = sum(
            instance.ordinal < goal.desired and self.is_outdated(instance) for instance in self.at.values()
        )

    def _place(self, instance: InstanceView) -> None:
        if instance.ordinal < 0:
            self.strays.append(instance)
            return
        other = self.at.get(instance.ordinal)
        if other is not None:
            instance, stray = sorted((instance, other), key=self._worth, reverse=True)
            self.strays.append(stray)
        self.at[instance.ordinal] = instance

    def _worth(self, instance: InstanceView) -> tuple[bool, bool, bool, str]:
        return not instance.deleting, instance.ready, not self.is_outdated(instance), instance.name

    def is_outdated(self, instance: InstanceView) -> bool:
        """Whether it was made from another template than the newest."""
        return instance.template_hash != self._goal.template_hash

    def wanted(self) -> range:
        """Ordinals that should exist now: the base, and above it no more than there is to replace."""
        return range(self._goal.desired + min(self._goal.limits.max_surge, self._to_replace))

    def removable(self) -> list[InstanceView]:
        """What should go, highest ordinal first: outdated anywhere, and surplus."""
        found = [instance for instance in self.at.values() if not instance.deleting and self._should_go(instance)]
        return sorted(found, key=lambda instance: -instance.ordinal)

    def _should_go(self, instance: InstanceView) -> bool:
        if self.is_outdated(instance):
            return True
        in_surge = instance.ordinal < self._goal.desired + self._goal.limits.max_surge
        return instance.ordinal >= self._goal.desired and not (in_surge and self._to_replace)

    def floor(self, instance: InstanceView) -> int:
        """How many must stay available when this one is taken away.

        Beyond the surge it is a scale-down: holding back all of it could wait forever for instances that wait for
        what these hold (quota, room on a node), so one below the wish is then always allowed.
        """
        desired, allowed = self._goal.desired, self._goal.limits
        beyond = instance.ordinal >= desired + allowed.max_surge
        return desired - (max(allowed.max_unavailable, 1) if beyond else allowed.max_unavailable)

    def take(self, instance: InstanceView) -> None:
        """Reckon with its removal."""
        self.available -= instance.ready
        self.room += 1

    def may_go(self, instance: InstanceView) -> bool:
        """Whether taking it away now leaves enough that are available."""
        return not instance.ready or self.available > self.floor(instance)

    def is_settled(self) -> bool:
        """Whether everything is as it should be."""
        if self.strays or self.deleting or len(self.at) != self._goal.desired:
            return False
        return all(
            instance.ready and instance.ordinal < self._goal.desired and not self.is_outdated(instance)
            for instance in self.at.values()
        )
