"""For any metrics: within the bounds, in the right direction, never down for lack of data, no flapping."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.scaling import MetricSpec, ScaleSettings, ScalingBehavior, ScalingPolicy, ScalingRules
from tarmac.decide.scaling import (
    ExternalReading,
    History,
    InstanceUse,
    Reading,
    ResourceReading,
    Unreadable,
    Use,
    recommend,
    scale,
)
from tests.decide.scaling.test_the_arithmetic_agrees_with_kubernetes import by_average, by_utilization, external

NOW = 1_800_000_000.0

policies = st.builds(ScalingPolicy, st.sampled_from(["Pods", "Percent"]), st.integers(1, 200), st.integers(1, 1800))
selections: st.SearchStrategy[Literal["Max", "Min", "Disabled"] | None] = st.sampled_from(
    [None, "Max", "Min", "Disabled"]
)
rules = st.builds(ScalingRules, st.none() | st.integers(0, 3600), selections, st.lists(policies, max_size=3), st.none())
behaviors = st.none() | st.builds(ScalingBehavior, st.none() | rules, st.none() | rules)
uses = st.builds(InstanceUse, st.none() | st.integers(0, 5000), st.integers(1, 4000), st.sampled_from(list(Use)))
resource_metrics = st.integers(1, 200).map(by_utilization) | st.integers(1, 3000).map(lambda m: by_average(f"{m}m"))
external_metrics = st.integers(1, 9000).map(lambda m: external(value=f"{m}m")) | st.integers(1, 9000).map(
    lambda m: external(average=f"{m}m")
)
unreadable = st.just(Unreadable("no answer"))
signals: st.SearchStrategy[tuple[MetricSpec, Reading]] = st.tuples(
    resource_metrics, unreadable | st.lists(uses, max_size=20).map(ResourceReading)
) | st.tuples(
    external_metrics,
    unreadable | st.builds(ExternalReading, st.lists(st.integers(0, 10**6), max_size=4), st.integers(0, 40)),
)
moments = st.tuples(st.floats(NOW - 4000, NOW), st.integers(0, 60))
changes = st.tuples(st.floats(NOW - 4000, NOW), st.integers(-30, 30))
histories = st.builds(History, st.lists(moments, max_size=6).map(tuple), st.lists(changes, max_size=6).map(tuple))
bounds = st.tuples(st.integers(1, 30), st.integers(1, 30)).map(sorted)


@given(st.lists(signals, min_size=1, max_size=3), bounds, st.integers(0, 60), histories, behaviors)
def test_the_number_is_always_within_the_bounds(
    found: list[tuple[MetricSpec, Reading]],
    limits: list[int],
    current: int,
    history: History,
    behavior: ScalingBehavior | None,
) -> None:
    """For every metric, history and behavior."""
    config = ScaleSettings(limits[0], limits[1], [metric for metric, _ in found], behavior=behavior)
    outcome = scale(config, [reading for _, reading in found], current, history, NOW)
    assert limits[0] <= outcome.replicas <= limits[1]
    if outcome.replicas != current and limits[0] <= current <= limits[1]:
        assert outcome.metric


def answer(metric: MetricSpec, reading: Reading, current: int) -> int:
    """Return the number that the metric recommends; the current one without a recommendation."""
    verdict = recommend(ScaleSettings(1, 1000, [metric]), [reading], current)
    return verdict.value.replicas if verdict.value else current


@given(resource_metrics, st.lists(uses, min_size=1, max_size=12), st.integers(1, 20), st.integers(1, 3000), st.data())
def test_more_use_never_asks_for_fewer(
    metric: MetricSpec, instances: list[InstanceUse], current: int, more: int, data: st.DataObject
) -> None:
    """One instance reports more than before."""
    which = data.draw(st.integers(0, len(instances) - 1))
    old = instances[which]
    if old.usage is None:
        return
    busier = [*instances]
    busier[which] = InstanceUse(old.usage + more, old.request, old.state)
    assert answer(metric, ResourceReading(busier), current) >= answer(metric, ResourceReading(instances), current)


@given(external_metrics, st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 30), st.integers(1, 30))
def test_a_longer_queue_never_asks_for_fewer(metric: MetricSpec, total: int, more: int, ready: int, now: int) -> None:
    """For external metrics."""
    less, greater = ExternalReading([total], ready), ExternalReading([total, more], ready)
    assert answer(metric, greater, now) >= answer(metric, less, now)


@given(st.lists(signals, min_size=1, max_size=3), st.integers(1, 30), histories, behaviors)
def test_an_unreadable_metric_never_lowers_the_number(
    found: list[tuple[MetricSpec, Reading]], current: int, history: History, behavior: ScalingBehavior | None
) -> None:
    """One unreadable metric is enough, unless the history already allowed a scale-down."""
    metrics = [external(average="10"), *(metric for metric, _ in found)]
    readings: list[Reading] = [Unreadable("no answer"), *(reading for _, reading in found)]
    verdict = recommend(ScaleSettings(1, 30, metrics, behavior=behavior), readings, current)
    assert verdict.value is None or verdict.value.replicas >= current
    assert verdict.refusals


@given(resource_metrics, st.lists(uses, min_size=1, max_size=12), st.integers(1, 12))
def test_silence_is_never_taken_for_idleness(metric: MetricSpec, instances: list[InstanceUse], current: int) -> None:
    """Missing reports count at least as idle ones, and with fewer than half of the reports the number stays."""
    silent = ResourceReading(instances)
    idle = ResourceReading(
        [InstanceUse(0, each.request, each.state) if each.usage is None else each for each in instances]
    )
    assert answer(metric, silent, current) >= min(current, answer(metric, idle, current))
    counted = [each for each in instances if each.state is Use.COUNTED]
    if 2 * sum(each.usage is not None for each in counted) < len(counted):
        assert answer(metric, silent, current) == current


@given(st.integers(1, 30), st.lists(st.floats(-0.099, 0.099), min_size=1, max_size=30))
def test_no_flapping_within_the_tolerance(current: int, noise: list[float]) -> None:
    """A metric that varies by less than a tenth changes nothing."""
    config = ScaleSettings(1, 100, [external(average="1k")])
    history, replicas = History.begin(current, NOW), current
    for tick, wave in enumerate(noise):
        reading = ExternalReading([int(current * 1_000_000 * (1 + wave))], current)
        outcome = scale(config, [reading], replicas, history, NOW + 400 * tick)
        assert outcome.replicas == current
        replicas, history = outcome.replicas, outcome.history


@given(st.integers(1, 40), st.integers(0, 40_000))
def test_a_steady_load_is_reached_and_kept(current: int, load: int) -> None:
    """From any number it arrives near load / target, within the bounds, and stays."""
    config = ScaleSettings(1, 40, [external(average="1")])
    history, replicas = History.begin(current, NOW), current
    for tick in range(60):
        moment = NOW + 15 * tick
        outcome = scale(config, [ExternalReading([load], replicas)], replicas, history, moment)
        history = outcome.history.with_change(replicas, outcome.replicas, moment)
        replicas = outcome.replicas
    ideal = min(max(load / 1000, 1), 40)
    assert ideal / 1.12 - 1 <= replicas <= ideal / 0.89 + 1
