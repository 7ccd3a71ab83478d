"""Input of the rollout's waves, from a Workload and its deployments as stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tarmac.api.compute.workload import Rollout, Workload, WorkloadDeployment
from tarmac.decide.derived.goal import WorkloadGoal
from tarmac.decide.placement import LocationView
from tarmac.decide.rollout.city import ObservedSeconds, city_of
from tarmac.decide.rollout.history import Revision
from tarmac.decide.rollout.waves import RolloutFacts

Watch = Callable[[WorkloadDeployment], ObservedSeconds]


def rollout_facts(
    workload: Workload,
    history: Sequence[Revision],
    goal: WorkloadGoal,
    places: Collection[LocationView],
    existing: Iterable[WorkloadDeployment],
    now: float,
    watch: Watch = lambda _: ObservedSeconds(),
) -> RolloutFacts:
    """Return the input of the waves; the history ends with the Workload's template.

    A city without a ready Location is lost. A caller that acts on the result passes its own observations with `watch`.
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
