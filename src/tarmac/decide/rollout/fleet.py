"""The instances of one city, classified for a rollout.

Ordinals below `desired` are the base; those above are the surge while the base still holds outdated instances, and
surplus otherwise. An instance without an ordinal, or the lesser of two with the same one, is a stray.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.validation.scaling import MAX_REPLICAS
from tarmac.api.compute.workload import Rollout, WorkloadDeploymentSpec
from tarmac.api.declare import IntOrString
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout.template import template_hash

# The number of instances a city should have, and the limits of a rollout around it.


def desired_replicas(settings: ScaleSettings, replicas: int | None) -> int:
    """Return the scaled number of replicas, or the minimum without one, clamped to the bounds of the settings."""
    low, high = settings.min_replicas, settings.max_replicas or MAX_REPLICAS
    return max(low, min(low if replicas is None else replicas, high))


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """Numbers of instances that may be missing or extra during a rollout. Never both zero."""

    max_unavailable: int = 1
    max_surge: int = 0


DEFAULT_LIMITS: Final = RolloutLimits()


def limits(rollout: Rollout | None, desired: int) -> RolloutLimits:
    """Resolve the limits to instances.

    As in Kubernetes, a percentage rounds down for maxUnavailable and up for maxSurge.
    """
    rollout = rollout or Rollout()
    surge = _resolve(rollout.max_surge, desired, up=True)
    unavailable = min(_resolve(rollout.max_unavailable, desired, up=False), desired)
    return RolloutLimits(unavailable if unavailable or surge else 1, surge)


def _resolve(amount: IntOrString, total: int, *, up: bool) -> int:
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%")) * total
    return -(-percent // 100) if up else percent // 100


@dataclass(frozen=True, slots=True)
class CityGoal:
    """The wanted state of a city's instances."""

    desired: int
    template_hash: str
    limits: RolloutLimits = DEFAULT_LIMITS
    ordered: bool = True
    paused: bool = False

    @staticmethod
    def of(spec: WorkloadDeploymentSpec) -> CityGoal:
        """Return the goal of a deployment's specification."""
        desired = desired_replicas(spec.scale_settings, spec.replicas)
        return CityGoal(
            desired,
            template_hash(spec.template),
            limits(spec.rollout, desired),
            spec.scale_settings.instance_management_policy == "OrderedReady",
            spec.paused,
        )


class Fleet:
    """The existing instances compared with a goal: how many are available, and how many more may be created."""

    def __init__(self, goal: CityGoal, instances: Iterable[InstanceView]) -> None:
        self._goal = goal
        self.at: dict[int, InstanceView] = {}
        self.strays: list[InstanceView] = []
        for instance in instances:
            self._place(instance)
        self.deleting = [instance for instance in self.at.values() if instance.deleting]
        self.room = goal.desired + goal.limits.max_surge - (len(self.at) - len(self.deleting))
        # A stopped machine counts as available: counted as missing, it would block the rollout of the other instances.
        self.available = sum(instance.settled and not instance.deleting for instance in self.at.values())
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
        """Return True if the instance was created from a template other than the newest."""
        return instance.template_hash != self._goal.template_hash

    def wanted(self) -> range:
        """Return the ordinals that should exist now: the base, and above it at most as many as are to be replaced."""
        return range(self._goal.desired + min(self._goal.limits.max_surge, self._to_replace))

    def removable(self) -> list[InstanceView]:
        """Return the instances to delete, highest ordinal first: all outdated ones, and the surplus."""
        found = [instance for instance in self.at.values() if not instance.deleting and self._should_go(instance)]
        return sorted(found, key=lambda instance: -instance.ordinal)

    def _should_go(self, instance: InstanceView) -> bool:
        if self.is_outdated(instance):
            return True
        in_surge = instance.ordinal < self._goal.desired + self._goal.limits.max_surge
        return instance.ordinal >= self._goal.desired and not (in_surge and self._to_replace)

    def floor(self, instance: InstanceView) -> int:
        """Return the number of instances that must stay available when this one is deleted.

        Beyond the surge it is a scale-down, and one below the desired number is always allowed: holding back every
        deletion could wait forever for instances that need the resources these ones hold (quota, room on a node).
        """
        desired, allowed = self._goal.desired, self._goal.limits
        beyond = instance.ordinal >= desired + allowed.max_surge
        return desired - (max(allowed.max_unavailable, 1) if beyond else allowed.max_unavailable)

    def take(self, instance: InstanceView) -> None:
        """Account for the removal of the instance."""
        self.available -= instance.settled
        self.room += 1

    def may_go(self, instance: InstanceView) -> bool:
        """Return True if enough instances stay available when this one is deleted now."""
        return not instance.ready or self.available > self.floor(instance)

    def is_settled(self) -> bool:
        """Return True if the existing instances match the goal and none is being deleted."""
        if self.strays or self.deleting or len(self.at) != self._goal.desired:
            return False
        return all(
            instance.settled and instance.ordinal < self._goal.desired and not self.is_outdated(instance)
            for instance in self.at.values()
        )
