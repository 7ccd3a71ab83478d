"""Known results of Kubernetes' horizontal autoscaler, case by case.

Instances are written as `used/requested` in thousandths; `-` is no reading, a trailing `!` an instance that is not
ready yet, a trailing `x` one that failed or is being deleted.
"""

from __future__ import annotations

import pytest

from tarmac.api.compute.scaling import (
    ExternalMetric,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetric,
    ScaleSettings,
    ScalingBehavior,
    ScalingRules,
)
from tarmac.base.quantity import Quantity
from tarmac.decide import reasons
from tarmac.decide.scaling import ExternalReading, InstanceUse, Reading, ResourceReading, Unreadable, Use, recommend


def by_utilization(percent: int) -> MetricSpec:
    """Return a target of cpu as a share of the requests."""
    return MetricSpec(resource=ResourceMetric("cpu", MetricTarget(average_utilization=percent)))


def by_average(amount: str) -> MetricSpec:
    """Return a target of cpu per instance."""
    return MetricSpec(resource=ResourceMetric("cpu", MetricTarget(average_value=Quantity.parse(amount))))


def external(*, value: str | None = None, average: str | None = None) -> MetricSpec:
    """Return a target of queue length, in total or per instance."""
    target = MetricTarget(
        value=Quantity.parse(value) if value else None, average_value=Quantity.parse(average) if average else None
    )
    return MetricSpec(external=ExternalMetric(MetricIdentifier("queue"), target))


def instances(written: str) -> ResourceReading:
    """Parse the short form above."""
    return ResourceReading([_instance(word) for word in written.split()])


def _instance(word: str) -> InstanceUse:
    state = {"!": Use.STARTING, "x": Use.GONE, "s": Use.STOPPED}.get(word[-1], Use.COUNTED)
    used, _, requested = word.rstrip("!xs").partition("/")
    return InstanceUse(None if used == "-" else int(used), int(requested or 1000), state)


def proposal(metric: MetricSpec, reading: Reading, current: int) -> int | None:
    """Return the number that one metric recommends."""
    settings = ScaleSettings(min_replicas=1, max_replicas=100, metrics=[metric])
    verdict = recommend(settings, [reading], current)
    return verdict.value.replicas if verdict.value else None


@pytest.mark.parametrize(
    ("current", "target", "use", "expected"),
    [
        (3, 30, "300 500 700", 5),  # 50 % of 30 %
        (3, 30, "300! 500 700", 4),  # a starting instance counts as idle when going up
        (3, 40, "400! 500 700!", 3),  # ... and would reverse the direction: stay
        (3, 30, "300 500 700 700x", 5),  # a failed instance does not count
        (5, 50, "100 300 500 250 250", 3),
        (5, 50, "100! 300 500 250 250", 3),  # 32 % of 50 % over the four that are ready
        (3, 100, "1010/900 1030/1000 1020/1100", 3),  # 102 %: within the tenth
        (2, 50, "550 550", 2),  # exactly a tenth above
        (2, 50, "560 560", 3),  # beyond it
        (10, 50, "450 450 450 450 450 450 450 450 450 450", 10),  # exactly a tenth below
        (10, 50, "440 440 440 440 440 440 440 440 440 440", 9),
        (4, 100, "400 95 - -", 3),  # a missing report counts as the whole request when going down
        (2, 100, "1000 -", 2),
        (2, 100, "1900 -", 2),  # a missing report counts as idle when going up: 95 %
        (2, 100, "600 -", 2),  # 80 % over two: two
        (3, 50, "100! 450 -", 3),
        (3, 50, "100! 2000 -", 4),
        (4, 50, "100! 100 100 -", 3),
        (4, 300, "200/1000! 100/1000 100/2000 -/2000", 2),  # a missing report counts as the target if above the request
    ],
)
def test_by_utilization(current: int, target: int, use: str, expected: int) -> None:
    """Percent of the instances' requests."""
    assert proposal(by_utilization(target), instances(use), current) == expected


@pytest.mark.parametrize(
    ("current", "target", "use", "expected"),
    [
        (1, "100m", "200", 2),  # twice the target: twice the instances
        (2, "100m", "50 50", 1),  # half of it: half
        (3, "15", "20000 10000 30000", 4),
        (5, "20", "10000 10000 10000 10000 10000", 3),
        (3, "20", "20000 21000 21000", 3),
        (4, "100m", "40 40 40 -", 3),  # a missing report counts as the target: 55 of 100
        (3, "100m", "240 240 -", 5),  # a missing report counts as zero: 160 of 100
    ],
)
def test_by_average_value(current: int, target: str, use: str, expected: int) -> None:
    """Thousandths per instance."""
    assert proposal(by_average(target), instances(use), current) == expected


@pytest.mark.parametrize(
    ("current", "target", "values", "expected"),
    [
        (1, "4400m", [8600], 2),
        (5, "14334m", [8600], 3),
        (3, "8888m", [8600], 3),  # within the tenth
        (2, "10", [15000, 15000], 6),  # series are added up
    ],
)
def test_by_external_value(current: int, target: str, values: list[int], expected: int) -> None:
    """The total relative to the target, times the serving instances."""
    assert proposal(external(value=target), ExternalReading(values, current), current) == expected


@pytest.mark.parametrize(
    ("current", "target", "values", "expected"),
    [
        (3, "2150m", [8600], 4),
        (5, "2867m", [8600], 3),
        (3, "2867m", [8600], 3),
        (1, "30", [1_000_000], 34),  # the total divided by the target, rounded up
        (0, "30", [31_000], 2),
        (4, "30", [0], 0),
    ],
)
def test_by_external_average_value(current: int, target: str, values: list[int], expected: int) -> None:
    """The total divided by the target."""
    assert proposal(external(average=target), ExternalReading(values, current), current) == expected


@pytest.mark.parametrize(
    ("current", "metric", "reading", "expected"),
    [
        (4, by_utilization(50), instances("750 750 -s -s"), 5),  # two serve at 150 %: three, and the stopped
        (4, by_utilization(50), instances("100 100 -s -s"), 3),  # one would suffice
        (4, by_utilization(50), instances("500 500 -s -s"), 4),
        (4, external(average="10"), ExternalReading([30_000], 2, 2), 5),
        (4, external(average="10"), ExternalReading([20_000], 2, 2), 4),
        (4, external(value="10"), ExternalReading([20_000], 2, 2), 6),
        (2, external(average="10"), ExternalReading([20_000], 0, 2), 4),  # none serves: two more are added
    ],
)
def test_machines_that_are_stopped_bear_no_load_and_take_places(
    current: int, metric: MetricSpec, reading: Reading, expected: int
) -> None:
    assert proposal(metric, reading, current) == expected


def two(first: Reading, second: Reading, current: int) -> tuple[int | None, list[str]]:
    """Evaluate two metrics, both in external averages of 10."""
    metrics = [external(average="10"), external(average="10")]
    verdict = recommend(ScaleSettings(min_replicas=1, max_replicas=50, metrics=metrics), [first, second], current)
    return verdict.value.replicas if verdict.value else None, [refusal.reason for refusal in verdict.refusals]


def test_the_largest_answer_wins() -> None:
    """From any metric."""
    assert two(ExternalReading([90_000], 3), ExternalReading([50_000], 3), 3) == (9, [])


def test_a_metric_that_cannot_be_read_lets_the_others_raise_but_not_lower() -> None:
    """Its recommendation could be higher."""
    gone = Unreadable("connection refused")
    assert two(gone, ExternalReading([90_000], 3), 3) == (9, [reasons.METRICS_UNAVAILABLE])
    assert two(gone, ExternalReading([10_000], 3), 3) == (None, [reasons.METRICS_UNAVAILABLE])
    assert two(gone, gone, 3) == (None, [reasons.METRICS_UNAVAILABLE] * 2)


@pytest.mark.parametrize("use", ["- - -", "100 - -", "100! 100!", "", "100x"])
def test_too_few_reports_say_nothing(use: str) -> None:
    """Fewer than half of the expected reports."""
    assert proposal(by_utilization(50), instances(use), 3) is None


def test_instances_without_requests_have_no_utilization() -> None:
    """A refusal says so, and the number stays."""
    assert proposal(by_utilization(50), instances("100/0 100/0"), 2) is None


def test_no_series_is_not_a_load_of_nothing() -> None:
    """An empty result may be a typing error or an outage, and removes no instance."""
    assert proposal(external(average="10"), ExternalReading([], 5), 5) is None
    assert proposal(external(average="10"), ExternalReading([0], 5), 5) == 0


def test_an_external_value_needs_an_instance_that_serves() -> None:
    """With none ready, the load of one instance is unknown, and none is removed."""
    assert proposal(external(value="10"), ExternalReading([1000], 0), 5) is None


def test_a_load_above_target_never_lowers_the_number() -> None:
    """Ten are wanted, five exist so far and are at 120 %."""
    assert proposal(by_average("100m"), instances("120 120 120 120 120"), 10) == 10


@pytest.mark.parametrize(
    ("metric", "reading", "expected"),
    [
        (by_average("1n"), instances(f"{10**400}/1000"), 2**31 - 1),
        (by_average("1e400"), instances("100/1000"), 1),
        (by_utilization(50), instances(f"{10**400}/1"), 2**31 - 1),
        (by_utilization(50), instances(f"1/{10**400}"), 0),
        (external(value="1n"), ExternalReading([10**311], 1), 2**31 - 1),
        (external(average="1e400"), ExternalReading([10**311], 1), 1),
    ],
)
def test_amounts_beyond_a_float_are_computed_exactly(metric: MetricSpec, reading: Reading, expected: int) -> None:
    assert proposal(metric, reading, 1) == expected


def test_a_tolerance_beyond_a_float_covers_everything() -> None:
    rules = ScalingRules(tolerance=Quantity.parse("1e400"))
    behavior = ScalingBehavior(scale_up=rules, scale_down=rules)
    settings = ScaleSettings(min_replicas=1, max_replicas=9, metrics=[by_utilization(50)], behavior=behavior)
    verdict = recommend(settings, [instances("9000 9000")], 2)
    assert verdict.value is not None
    assert verdict.value.replicas == 2
