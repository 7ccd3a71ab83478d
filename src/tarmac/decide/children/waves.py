"""The waves of a Workload's rollout, from the Workload and its deployments as they are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tarmac.api.compute.workload import Rollout, Workload, WorkloadDeployment
from tarmac.decide.children.goal import Goal
from tarmac.decide.placement import Place
from tarmac.decide.rollout.city import ObservedSeconds, city_of
from tarmac.decide.rollout.history import Revision
from tarmac.decide.rollout.waves import RolloutFacts

Watch = Callable[[WorkloadDeployment], ObservedSeconds]


def rollout_facts(
    workload: Workload,
    history: Sequence[Revision],
    goal: Goal,
    places: Collection[Place],
    existing: Iterable[WorkloadDeployment],
    now: float,
    watch: Watch = lambda _: ObservedSeconds(),
) -> RolloutFacts:
    """What the waves follow from; the history ends with the Workload's template.

    A city without a Location that is ready is lost. Whoever acts on them says with `watch` what it has seen itself.
    """
    present = {each.metadata.name: each for each in existing}
    served = {place.city for place in places if place.ready}
    return RolloutFacts(
        history=history,
        cities=[
            city_of(
                name,
                child.city,
                known,
                now,
                lost=child.city not in served,
                seen=watch(known) if known else ObservedSeconds(),
            )
            for name, child in goal.children.items()
            for known in (present.get(name),)
        ],
        settings=workload.spec.rollout or Rollout(),
        known=workload.status.rollout if workload.status else None,
        paused=workload.spec.paused,
    )
