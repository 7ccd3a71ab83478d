"""The next instances to create and to remove."""

from __future__ import annotations

import pytest

from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollout import CityGoal, RemovalCause, RolloutLimits, RolloutSteps, plan
from tests.decide.rollout.world import instance

ORDERED = CityGoal(3, "a")
PARALLEL = CityGoal(3, "a", ordered=False)


def removed(steps: RolloutSteps) -> list[tuple[int, RemovalCause]]:
    """Return the ordinals to remove, with their causes."""
    return [(removal.instance.ordinal, removal.cause) for removal in steps.remove]


def test_ordered_makes_the_lowest_first_and_waits_until_it_is_ready() -> None:
    """No instance is created before all lower ones are ready."""
    assert plan(ORDERED, []).create == (0,)
    waiting = plan(ORDERED, [instance(0, ready=False)])
    assert (waiting.create, waiting.remove) == ((), ())
    assert waiting.waiting is not None
    assert (waiting.waiting.reason, waiting.waiting.where) == (reasons.WAITING_FOR_INSTANCE, "web-0")
    assert plan(ORDERED, [instance(0)]).create == (1,)


def test_parallel_makes_all_at_once() -> None:
    """Readiness of other instances does not matter."""
    assert plan(PARALLEL, [instance(1, ready=False)]).create == (0, 2)


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_a_gap_is_filled(goal: CityGoal) -> None:
    """A lost ordinal comes back under its own number."""
    assert plan(goal, [instance(0), instance(2)]).create == (1,)


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_nothing_is_left_to_do_when_all_is_as_wanted(goal: CityGoal) -> None:
    """The rollout is complete without a step."""
    assert plan(goal, [instance(0), instance(1), instance(2)]) == RolloutSteps(complete=True)


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_a_name_is_not_used_while_its_old_holder_is_being_deleted(goal: CityGoal) -> None:
    """The replacement waits until the name is free."""
    steps = plan(goal, [instance(0), instance(1), instance(2, deleting=True)])
    assert steps.create == ()
    assert steps.waiting is not None
    assert steps.waiting.reason == reasons.NAME_BEING_DELETED


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_a_machine_that_is_stopped_is_as_wanted_and_is_not_replaced(goal: CityGoal) -> None:
    """The rollout is complete, and missing higher instances are created."""
    assert plan(goal, [instance(0, stopped=True), instance(1), instance(2)]) == RolloutSteps(complete=True)
    assert plan(goal, [instance(0, stopped=True), instance(1)]).create == (2,)


def test_a_machine_that_is_stopped_does_not_keep_the_others_from_being_replaced() -> None:
    """It does not count as unavailable, so one serving instance may be replaced."""
    mixed = [instance(0, "a", stopped=True), instance(1, "old"), instance(2, "old")]
    assert removed(plan(PARALLEL, mixed)) == [(2, RemovalCause.OUTDATED)]
    assert removed(plan(ORDERED, mixed)) == [(2, RemovalCause.OUTDATED)]
    old = [instance(0, "old", stopped=True), instance(1, "old"), instance(2, "old")]
    assert removed(plan(ORDERED, old)) == [(0, RemovalCause.OUTDATED)], "the stopped one first"


def test_scale_down_takes_the_highest_first() -> None:
    """One by one if ordered, all at once if parallel."""
    five = [instance(ordinal) for ordinal in range(5)]
    assert removed(plan(ORDERED, five)) == [(4, RemovalCause.SCALE_DOWN)]
    assert removed(plan(PARALLEL, five)) == [(4, RemovalCause.SCALE_DOWN), (3, RemovalCause.SCALE_DOWN)]


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_scale_down_does_not_take_what_still_serves_in_place_of_others(goal: CityGoal) -> None:
    """Two of three must serve; only the two above do."""
    steps = plan(goal, [instance(0, ready=False), instance(1, ready=False), instance(3), instance(4)])
    assert removed(steps) == []


def test_nothing_is_made_above_the_limit_while_others_are_kept() -> None:
    """Two above the number still serve, so of the three below only one may be created; the next one after a removal."""
    kept = [instance(3), instance(4)]
    assert plan(PARALLEL, kept).create == (0,)
    assert plan(ORDERED, [*kept, instance(5, ready=False, deleting=True)]).create == ()
    assert plan(PARALLEL, [*kept, instance(0, ready=False)]) == plan(PARALLEL, [instance(0, ready=False), *kept])
    assert plan(PARALLEL, [*kept, instance(0, ready=False)]).create == ()
    assert removed(plan(PARALLEL, [*kept, instance(0)])) == [(4, RemovalCause.SCALE_DOWN)]


@pytest.mark.parametrize("ordered", [True, False])
def test_scale_down_never_holds_everything_that_those_below_wait_for(ordered: bool) -> None:
    """Three fit the quota and three are wanted; two of them are above. Even with none to spare, one is removed."""
    goal = CityGoal(3, "a", RolloutLimits(0, 1), ordered)
    blocked = [instance(0), instance(1, ready=False), instance(4), instance(5)]
    assert removed(plan(goal, blocked)) == [(5, RemovalCause.SCALE_DOWN)]


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_scale_down_takes_a_stuck_instance_away(goal: CityGoal) -> None:
    """The instance that never becomes ready is above the new number."""
    steps = plan(goal, [instance(0), instance(1), instance(2), instance(3, ready=False)])
    assert removed(steps) == [(3, RemovalCause.SCALE_DOWN)]


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_a_new_template_replaces_the_highest_first_and_one_at_a_time(goal: CityGoal) -> None:
    """With the default limits."""
    old = [instance(ordinal, "old") for ordinal in range(3)]
    assert removed(plan(goal, old)) == [(2, RemovalCause.OUTDATED)]
    assert removed(plan(goal, [*old[:2], instance(2, ready=False)])) == []
    assert removed(plan(goal, [*old[:2], instance(2)])) == [(1, RemovalCause.OUTDATED)]


def test_parallel_replaces_as_many_as_may_be_unavailable() -> None:
    """An ordered rollout never replaces more than one."""
    old = [instance(ordinal, "old") for ordinal in range(5)]
    allowed = RolloutLimits(max_unavailable=2)
    parallel = plan(CityGoal(5, "a", allowed, ordered=False), old)
    assert removed(parallel) == [(4, RemovalCause.OUTDATED), (3, RemovalCause.OUTDATED)]
    assert removed(plan(CityGoal(5, "a", allowed), old)) == [(4, RemovalCause.OUTDATED)]


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_a_newer_revision_supersedes_a_stuck_one(goal: CityGoal) -> None:
    """Ordinal 2 is stuck at revision b; the newest revision replaces it without waiting for it."""
    stuck = [instance(0, "old"), instance(1, "old"), instance(2, "b", ready=False)]
    assert removed(plan(goal, stuck)) == [(2, RemovalCause.OUTDATED)]


def test_a_stuck_newest_revision_holds_the_rollout() -> None:
    """One is unavailable already, so the old ones keep serving."""
    stuck = [instance(0, "old"), instance(1, "old"), instance(2, "a", ready=False)]
    for goal in (ORDERED, PARALLEL):
        steps = plan(goal, stuck)
        assert (steps.create, steps.remove) == ((), ())
        assert steps.waiting is not None
        assert steps.waiting.where == "web-2"


def test_extra_instances_come_first_and_go_last() -> None:
    """With surge, an ordinal above the highest is created at the new revision before an old one is removed."""
    goal = CityGoal(2, "a", RolloutLimits(0, 1), ordered=False)
    old = [instance(0, "old"), instance(1, "old")]
    assert (plan(goal, old).create, removed(plan(goal, old))) == ((2,), [])
    assert plan(goal, [*old, instance(2, ready=False)]).remove == ()
    assert removed(plan(goal, [*old, instance(2)])) == [(1, RemovalCause.OUTDATED)]
    assert removed(plan(goal, [instance(0, "old"), instance(1), instance(2)])) == [(0, RemovalCause.OUTDATED)]
    assert plan(goal, [instance(0, ready=False), instance(1), instance(2)]).remove == ()
    assert removed(plan(goal, [instance(0), instance(1), instance(2)])) == [(2, RemovalCause.SCALE_DOWN)]


def test_no_more_extra_instances_than_there_are_to_replace() -> None:
    """Three extra ones are allowed, one is outdated."""
    goal = CityGoal(2, "a", RolloutLimits(0, 3), ordered=False)
    assert plan(goal, [instance(0), instance(1, "old")]).create == (2,)


@pytest.mark.parametrize("goal", [ORDERED, PARALLEL])
def test_strays_go(goal: CityGoal) -> None:
    """An instance without an ordinal, or with the ordinal of a better instance."""
    nameless = InstanceView("odd", -1, "a", ready=True)
    twin = InstanceView("twin", 1, "old", ready=True)
    steps = plan(goal, [instance(0), twin, instance(1), nameless, instance(2)])
    assert {(removal.instance.name, removal.cause) for removal in steps.remove} == {
        ("odd", RemovalCause.STRAY),
        ("twin", RemovalCause.STRAY),
    }


@pytest.mark.parametrize("ordered", [True, False])
def test_paused_does_nothing(ordered: bool) -> None:
    """No rollout and no scaling, with a reason."""
    goal = CityGoal(3, "a", ordered=ordered, paused=True)
    steps = plan(goal, [instance(0, "old"), instance(7, ready=False)])
    assert (steps.create, steps.remove, steps.complete) == ((), (), False)
    assert steps.waiting is not None
    assert steps.waiting.reason == reasons.PAUSED
