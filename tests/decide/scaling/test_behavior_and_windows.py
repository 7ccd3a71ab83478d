"""Rates and stabilisation windows of scaling."""

from __future__ import annotations

from typing import Literal

import pytest

from tarmac.api.compute.scaling import ScaleSettings, ScalingBehavior, ScalingPolicy, ScalingRules
from tarmac.base.quantity import Quantity
from tarmac.decide import reasons
from tarmac.decide.scaling import ExternalReading, History, Unreadable, scale, stabilise
from tests.decide.scaling.test_the_arithmetic_agrees_with_kubernetes import external

NOW = 1_800_000_000.0


def pods(value: int, seconds: int = 60) -> ScalingPolicy:
    """Return a policy of this many instances in a period."""
    return ScalingPolicy("Pods", value, seconds)


def percent(value: int, seconds: int = 60) -> ScalingPolicy:
    """Return a policy of this share in a period."""
    return ScalingPolicy("Percent", value, seconds)


def rules(
    *policies: ScalingPolicy, select: Literal["Max", "Min", "Disabled"] | None = None, window: int | None = None
) -> ScalingRules:
    """Return the rules of one direction."""
    return ScalingRules(stabilization_window_seconds=window, select_policy=select, policies=list(policies))


def settings(up: ScalingRules | None = None, down: ScalingRules | None = None, low: int = 1) -> ScaleSettings:
    """Return settings with a maximum of a hundred instances."""
    behavior = ScalingBehavior(scale_up=up, scale_down=down) if up or down else None
    return ScaleSettings(min_replicas=low, max_replicas=100, behavior=behavior)


@pytest.mark.parametrize(
    ("up", "current", "expected"),
    [
        (None, 1, 5),  # Pods: +4 beats Percent: +100 %
        (None, 10, 20),  # Percent: +100 % beats Pods: +4
        (None, 80, 100),  # maxReplicas
        (rules(pods(4), percent(100), select="Min"), 1, 2),
        (rules(pods(4), percent(100), select="Min"), 10, 14),
        (rules(pods(4), percent(100), select="Max"), 10, 20),
        (rules(pods(3)), 10, 13),
        (rules(percent(10)), 11, 13),  # 12.1 rounds up, so that a small share has an effect
        (rules(percent(900)), 3, 30),
        (rules(select="Disabled"), 10, 10),
    ],
)
def test_one_step_up(up: ScalingRules | None, current: int, expected: int) -> None:
    """The metrics recommend 500 instances."""
    assert stabilise(settings(up=up), 500, current, History(), NOW).replicas == expected


@pytest.mark.parametrize(
    ("down", "current", "expected"),
    [
        (None, 80, 1),  # only the window limits it, and the window is empty
        (rules(percent(10)), 80, 72),
        (rules(percent(10)), 72, 64),  # 64.8 rounds down
        (rules(pods(4), percent(10)), 80, 72),  # the larger change by default
        (rules(pods(4), percent(10)), 30, 26),
        (rules(pods(4), percent(10), select="Min"), 80, 76),
        (rules(pods(4), percent(10), select="Min"), 30, 27),
        (rules(pods(5), window=0), 10, 5),
        (rules(select="Disabled"), 10, 10),
    ],
)
def test_one_step_down(down: ScalingRules | None, current: int, expected: int) -> None:
    """The metrics recommend none."""
    assert stabilise(settings(down=down), 0, current, History(), NOW).replicas == expected


def test_policies_count_what_was_changed_in_their_period() -> None:
    """Four in a minute: two were added half a minute ago, so two are left; later all four again."""
    config = settings(up=rules(pods(4)))
    history = History().with_change(8, 10, NOW - 30)
    assert stabilise(config, 50, 10, history, NOW).replicas == 12
    assert stabilise(config, 50, 10, history, NOW + 30).replicas == 14


def test_a_scale_down_within_the_period_adds_to_the_next_scale_up() -> None:
    """The period began with two more."""
    history = History().with_change(12, 10, NOW - 30)
    assert stabilise(settings(up=rules(pods(4))), 50, 10, history, NOW).replicas == 16


def test_going_down_waits_for_the_highest_of_the_window_to_pass() -> None:
    """Five minutes by default."""
    config = settings()
    history = History().with_recommendation(10, NOW - 299).with_recommendation(6, NOW - 100)
    held = stabilise(config, 3, 10, history, NOW)
    assert held.replicas == 10
    assert [refusal.reason for refusal in held.refusals] == [reasons.SCALE_DOWN_STABILIZED]
    assert stabilise(config, 3, 10, history, NOW + 2).replicas == 6
    assert stabilise(config, 3, 10, history, NOW + 200).replicas == 3


def test_going_up_waits_for_the_lowest_of_its_window() -> None:
    """Only with a window; there is none by default."""
    history = History().with_recommendation(12, NOW - 50)
    waiting = stabilise(settings(up=rules(pods(100), window=60)), 30, 10, history, NOW)
    assert waiting.replicas == 12
    assert [refusal.reason for refusal in waiting.refusals] == [reasons.SCALE_UP_STABILIZED]
    assert stabilise(settings(up=rules(pods(100))), 30, 10, history, NOW).replicas == 30


def test_a_restarted_controller_does_not_scale_down_at_first_sight() -> None:
    """The current number counts as recommended."""
    history = History.begin(10, NOW)
    assert stabilise(settings(), 2, 10, history, NOW + 15).replicas == 10
    assert stabilise(settings(), 2, 10, history, NOW + 301).replicas == 2


@pytest.mark.parametrize(
    ("recommended", "current", "low", "reason"),
    [
        (500, 90, 1, reasons.TOO_MANY_REPLICAS),
        (0, 10, 3, reasons.TOO_FEW_REPLICAS),
        (50, 10, 1, reasons.SCALE_RATE_LIMITED),
    ],
)
def test_the_reason_says_what_held_the_number(recommended: int, current: int, low: int, reason: str) -> None:
    """Bounds come with the change that would help."""
    outcome = stabilise(settings(low=low), recommended, current, History(), NOW)
    assert [refusal.reason for refusal in outcome.refusals] == [reason]
    assert bool(outcome.refusals[0].change) == (reason != reasons.SCALE_RATE_LIMITED)


def test_the_whole_decision() -> None:
    """From a reading to a number, with the metric that decided."""
    config = ScaleSettings(min_replicas=2, max_replicas=20, metrics=[external(average="30")])
    outcome = scale(config, [ExternalReading([240_000], 4)], 4, History(), NOW)
    assert (outcome.replicas, outcome.metric, outcome.refusals) == (8, "queue", ())
    held = scale(config, [Unreadable("timeout")], 4, outcome.history, NOW)
    assert held.replicas == 4
    assert "timeout" in held.refusals[0].message
    assert held.history == outcome.history


@pytest.mark.parametrize(("current", "expected"), [(50, 20), (1, 2), (0, 2)])
def test_a_number_outside_the_bounds_is_brought_back_at_once(current: int, expected: int) -> None:
    """Regardless of the metrics."""
    config = ScaleSettings(min_replicas=2, max_replicas=20, metrics=[external(average="30")])
    assert scale(config, [Unreadable("timeout")], current, History(), NOW).replicas == expected


def test_the_tolerance_can_be_set_for_each_direction() -> None:
    """A fifth down, nothing up."""
    wide = ScalingBehavior(
        scale_up=ScalingRules(tolerance=Quantity.parse("0")),
        scale_down=ScalingRules(tolerance=Quantity.parse("200m"), stabilization_window_seconds=0),
    )
    config = ScaleSettings(min_replicas=1, max_replicas=20, metrics=[external(average="10")], behavior=wide)
    for total, expected in ((81_000, 10), (79_000, 8), (101_000, 11)):
        assert scale(config, [ExternalReading([total], 10)], 10, History(), NOW).replicas == expected


def test_the_past_does_not_grow_without_end() -> None:
    """An hour is kept."""
    history = History()
    for tick in range(1000):
        history = history.with_recommendation(3, NOW + 15 * tick).with_change(3, 3, NOW + 15 * tick)
    assert len(history.recommended) == len(history.changed) == 240
