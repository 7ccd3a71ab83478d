"""The waves of a Workload's rollout, from the Workload and its deployments as they are stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tarmac.api.compute.workload import Rollout, Workload, WorkloadDeployment
from tarmac.decide.children.goal import Goal
from tarmac.decide.placement import Place
from tarmac.decide.rollout.city import city_of
from tarmac.decide.rollout.history import record
from tarmac.decide.rollout.stored import history_of
from tarmac.decide.rollout.waves import RolloutFacts, Waves, waves


def waves_of(
    workload: Workload, goal: Goal, places: Collection[Place], existing: Iterable[WorkloadDeployment], now: float
) -> Waves:
    """Which revision each deployment of the goal should have now."""
    return waves(rollout_facts(workload, goal, places, existing, now), now)


def rollout_facts(
    workload: Workload, goal: Goal, places: Collection[Place], existing: Iterable[WorkloadDeployment], now: float
) -> RolloutFacts:
    """What the waves follow from. A city without a Location that is ready is lost."""
    present = {each.metadata.name: each for each in existing}
    served = {place.city for place in places if place.ready}
    return RolloutFacts(
        history=record(history_of(workload), workload.spec.template, now),
        cities=[
            city_of(name, child.city, present.get(name), now, lost=child.city not in served)
            for name, child in goal.children.items()
        ],
        settings=workload.spec.rollout or Rollout(),
        known=workload.status.rollout if workload.status else None,
        paused=workload.spec.paused,
    )
