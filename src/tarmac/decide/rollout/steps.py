"""The next steps of one city's instances, by its management policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout.fleet import CityGoal, Fleet
from tarmac.decide.verdict import Refusal


class RemovalCause(Enum):
    """The cause of an instance's removal."""

    STRAY = "Stray"  # it has no ordinal, or shares it with a second instance
    SCALE_DOWN = "ScaleDown"  # there are more than wanted; its disks are deleted too
    OUTDATED = "Outdated"  # its ordinal is recreated with the newest template


@dataclass(frozen=True, slots=True)
class Removal:
    """An instance to delete."""

    instance: InstanceView
    cause: RemovalCause


@dataclass(frozen=True, slots=True)
class RolloutSteps:
    """The steps to take now. `create` holds ordinals to create from the newest template, lowest first.

    `waiting` is the reason for the wait before the next step, if there is one. `complete` means that nothing is left to
    do.
    """

    create: tuple[int, ...] = ()
    remove: tuple[Removal, ...] = ()
    waiting: Refusal | None = None
    complete: bool = False


def plan(goal: CityGoal, instances: Iterable[InstanceView]) -> RolloutSteps:
    """Return the next steps from the existing instances toward the goal.

    Idempotent: the same state gives the same steps.
    """
    if goal.paused:
        return RolloutSteps(
            waiting=Refusal(reasons.PAUSED, "Rollout and scaling are paused.", change="Set paused to false.")
        )
    fleet = Fleet(goal, instances)
    if fleet.is_settled():
        return RolloutSteps(complete=True)
    steps = _ordered(goal, fleet) if goal.ordered else _parallel(goal, fleet)
    removals = (*(Removal(stray, RemovalCause.STRAY) for stray in fleet.strays if not stray.deleting), *steps.remove)
    if not removals and fleet.strays and steps == RolloutSteps():
        return RolloutSteps(waiting=_gone_first(fleet.strays[0]))
    return RolloutSteps(steps.create, removals, steps.waiting)


def _parallel(goal: CityGoal, fleet: Fleet) -> RolloutSteps:
    """Return all steps that the limits allow, at once."""
    removals: list[Removal] = []
    for instance in fleet.removable():
        if fleet.may_go(instance):
            fleet.take(instance)
            removals.append(_removal(goal, instance))
    missing = [ordinal for ordinal in fleet.wanted() if ordinal not in fleet.at]
    creations = tuple(missing[: max(fleet.room, 0)])
    return RolloutSteps(creations, tuple(removals), None if removals or creations else _first_unready(fleet))


def _ordered(goal: CityGoal, fleet: Fleet) -> RolloutSteps:
    """Return a step for one instance at a time; none is created before all lower ordinals are ready."""
    if fleet.deleting:
        return RolloutSteps(waiting=_gone_first(fleet.deleting[0]))
    removable = [instance for instance in fleet.removable() if fleet.may_go(instance)]
    urgent = [instance for instance in removable if instance.ordinal >= goal.desired or not instance.ready]
    if urgent:
        return RolloutSteps(remove=(_removal(goal, urgent[0]),))
    for ordinal in fleet.wanted():
        instance = fleet.at.get(ordinal)
        if instance is None and fleet.room > 0:
            return RolloutSteps(create=(ordinal,))
        if instance is None:
            return RolloutSteps(waiting=_first_unready(fleet))
        if not instance.settled:
            return RolloutSteps(waiting=_ready_first(instance))
    return RolloutSteps(remove=tuple(_removal(goal, instance) for instance in removable[:1]))


def _removal(goal: CityGoal, instance: InstanceView) -> Removal:
    return Removal(instance, RemovalCause.SCALE_DOWN if instance.ordinal >= goal.desired else RemovalCause.OUTDATED)


def _first_unready(fleet: Fleet) -> Refusal | None:
    if fleet.deleting:
        return _gone_first(fleet.deleting[0])
    unready = [instance for instance in fleet.at.values() if not instance.settled]
    return _ready_first(min(unready, key=lambda instance: instance.ordinal)) if unready else None


def _gone_first(instance: InstanceView) -> Refusal:
    return Refusal(reasons.NAME_BEING_DELETED, f"{instance.name} is still being deleted.", instance.name, "rollout")


def _ready_first(instance: InstanceView) -> Refusal:
    because = f": {instance.message}" if instance.message else "."
    message = f"{instance.name} is not ready ({instance.reason}){because}"
    return Refusal(reasons.WAITING_FOR_INSTANCE, message, instance.name, "rollout")
