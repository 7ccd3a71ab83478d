"""Under any disturbance: never too many, never too few, unique ordinals, and an end."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout import CityGoal, RolloutLimits, plan
from tests.decide.rollout.world import World, instance

limits = st.one_of(
    st.builds(RolloutLimits, st.integers(1, 5), st.integers(0, 4)),
    st.builds(RolloutLimits, st.just(0), st.integers(1, 4)),
)
goals = st.builds(CityGoal, st.integers(1, 8), st.sampled_from("abc"), limits, st.booleans())
fleets = st.dictionaries(
    st.integers(0, 12), st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=12
).map(lambda found: [instance(o, h, ready=r, deleting=d) for o, (h, r, d) in found.items()])
strays = st.lists(
    st.builds(InstanceView, st.uuids().map(str), st.integers(-1, 4), st.sampled_from("abc"), st.booleans()), max_size=3
)


def check_step(goal: CityGoal, before: list[InstanceView], world: World) -> None:
    """Assert the invariants of one step."""
    live = world.live()
    ordinals = [view.ordinal for view in live if view.ordinal >= 0]
    assert len(ordinals) == len(set(ordinals)), "two live instances share an ordinal"
    was_live = sum(not view.deleting for view in before)
    assert len(live) <= max(was_live, goal.desired + goal.limits.max_surge)
    was_available = sum(view.ready and not view.deleting for view in before if view.ordinal >= 0)
    scaled_down = any(view.ordinal >= goal.desired + goal.limits.max_surge for view in before)
    allowed = max(goal.limits.max_unavailable, 1) if scaled_down else goal.limits.max_unavailable
    assert world.available() >= min(was_available - shared(before), goal.desired - allowed)


def shared(views: list[InstanceView]) -> int:
    """Count the ready instances that are removed because of a shared ordinal."""
    ready = [view.ordinal for view in views if view.ready and not view.deleting and view.ordinal >= 0]
    return len(ready) - len(set(ready))


@given(goals, fleets, strays)
def test_one_step_from_anywhere_keeps_the_limits(
    goal: CityGoal, fleet: list[InstanceView], extra: list[InstanceView]
) -> None:
    """From any state of the city."""
    world = World(*fleet, *extra)
    before = world.views()
    world.act(goal)
    check_step(goal, before, world)


@given(goals, fleets, st.randoms(use_true_random=False), st.integers(1, 60))
def test_every_step_under_constant_trouble_keeps_the_limits(
    goal: CityGoal, fleet: list[InstanceView], dice: random.Random, steps: int
) -> None:
    """Instances come and go at random between the steps."""
    world = World(*fleet)
    for _ in range(steps):
        before = world.views()
        world.act(goal)
        check_step(goal, before, world)
        world.jolt(dice)


@given(goals, fleets, strays)
def test_every_rollout_ends(goal: CityGoal, fleet: list[InstanceView], extra: list[InstanceView]) -> None:
    """The number of steps grows only with the number of instances, and no step follows."""
    world = World(*fleet, *extra)
    world.run(goal, steps=4 * (len(fleet) + len(extra) + goal.desired + goal.limits.max_surge) + 4)
    assert {view.ordinal: view.template_hash for view in world.views()} == dict.fromkeys(
        range(goal.desired), goal.template_hash
    )
    assert world.act(goal).complete


@given(st.integers(1, 6), limits, st.booleans(), st.integers(0, 30))
def test_a_broken_revision_never_stops_the_next_one(
    desired: int, allowed: RolloutLimits, ordered: bool, stuck_for: int
) -> None:
    """b never becomes ready; c, which arrives while b is stuck, rolls out completely."""
    world = World(*(instance(ordinal, "a") for ordinal in range(desired)), broken="b")
    for _ in range(stuck_for):
        before = world.views()
        steps = world.act(CityGoal(desired, "b", allowed, ordered))
        check_step(CityGoal(desired, "b", allowed, ordered), before, world)
        assert not steps.complete
        world.settle()
    world.run(CityGoal(desired, "c", allowed, ordered), steps=8 * (desired + allowed.max_surge) + 8)


@given(goals, fleets)
def test_ordered_changes_one_instance_at_a_time(goal: CityGoal, fleet: list[InstanceView]) -> None:
    """One creation or one removal, and none during a deletion."""
    if not goal.ordered:
        return
    steps = plan(goal, fleet)
    assert len(steps.create) + len(steps.remove) <= (0 if any(view.deleting for view in fleet) else 1)


@given(goals, fleets, strays, st.booleans())
def test_a_plan_is_never_empty_without_a_reason(
    goal: CityGoal, fleet: list[InstanceView], extra: list[InstanceView], going: bool
) -> None:
    """It has steps, is complete, or names the cause of waiting."""
    steps = plan(goal, [*fleet, *(replace(stray, deleting=going) for stray in extra)])
    assert steps.create or steps.remove or steps.complete or steps.waiting
