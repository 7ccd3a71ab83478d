"""Converts one metric's readings to a number of instances.

Ratios are fractions: readings and targets may be larger than any float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction
from math import ceil
from typing import Final

from tarmac.api.compute.scaling import MetricSpec, MetricTarget
from tarmac.decide import reasons
from tarmac.decide.scaling.tolerance import Tolerance
from tarmac.decide.verdict import Refusal, Verdict

_RULE: Final = "scaling.metrics"
_MAX_INSTANCES: Final = 2**31 - 1  # instances, whatever the metric reads


class Use(Enum):
    """The part that an instance has in the average."""

    COUNTED = auto()  # it serves; without a reading it counts as missing
    STARTING = auto()  # not ready yet, or never reported: left out, but counted as idle when scaling up
    GONE = auto()  # failed or being deleted: left out
    STOPPED = auto()  # a stopped machine: left out of the average, but part of the number of instances


@dataclass(frozen=True, slots=True)
class InstanceUse:
    """One instance's usage and request of a resource, in thousandths. `usage` is None without a fresh reading."""

    usage: int | None
    request: int = 0
    state: Use = Use.COUNTED


@dataclass(frozen=True, slots=True)
class ResourceReading:
    """A resource metric: the usage of each instance."""

    instances: Sequence[InstanceUse]

    @property
    def stopped(self) -> int:
        """Stopped machines: they carry no load, but count in the number of instances."""
        return sum(each.state is Use.STOPPED for each in self.instances)


@dataclass(frozen=True, slots=True)
class ExternalReading:
    """An external metric: the values of all its series, in thousandths, and the number of serving instances.

    `stopped` machines carry no load, but count in the number of instances.
    """

    values: Sequence[int]
    ready: int
    stopped: int = 0


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A metric that could not be read."""

    message: str


Reading = ResourceReading | ExternalReading | Unreadable


def metric_name(metric: MetricSpec) -> str:
    """Return the metric's name in messages."""
    if metric.resource is not None:
        return metric.resource.name
    return metric.external.metric.name if metric.external else ""


def propose(metric: MetricSpec, reading: Reading, current: int, tolerance: Tolerance) -> Verdict[int]:
    """Return the number of instances the metric asks for, or the reason why it is unknown.

    Only serving instances are evaluated; stopped machines are added to the result.
    """
    name = metric_name(metric)
    if isinstance(reading, ResourceReading) and metric.resource is not None:
        serving = max(current - reading.stopped, 0)
        verdict = _by_resource(name, metric.resource.target, reading.instances, serving, tolerance)
        return _with_stopped(verdict, reading.stopped)
    if isinstance(reading, ExternalReading) and metric.external is not None:
        serving = max(current - reading.stopped, 0)
        verdict = _by_external(name, metric.external.target, reading, serving, tolerance)
        return _with_stopped(verdict, reading.stopped)
    message = reading.message if isinstance(reading, Unreadable) else "It was read as another kind of metric."
    return _no(reasons.METRICS_UNAVAILABLE, name, message)


def _with_stopped(verdict: Verdict[int], stopped: int) -> Verdict[int]:
    return verdict if verdict.value is None else Verdict(min(_MAX_INSTANCES, verdict.value + stopped), verdict.refusals)


def _no(reason: str, name: str, message: str) -> Verdict[int]:
    return Verdict(None, (Refusal(reason, f"{name}: {message}", name, _RULE),))


def _by_external(
    name: str, target: MetricTarget, reading: ExternalReading, current: int, tolerance: Tolerance
) -> Verdict[int]:
    if not reading.values:
        return _no(reasons.METRICS_UNAVAILABLE, name, "no series matches")
    total = sum(reading.values)
    if target.average_value is not None:
        wanted = target.average_value.milli()
        if current and tolerance.covers(Fraction(total, wanted * current)):
            return Verdict(current)
        return Verdict(_divide_up(total, wanted))
    assert target.value is not None, "admission lets no external metric without a value through"
    ratio = Fraction(total, target.value.milli())
    if not current:
        return Verdict(ceil(ratio))
    if tolerance.covers(ratio):
        return Verdict(current)
    if not reading.ready:
        return _no(reasons.TOO_FEW_METRICS, name, "no instance is ready, so the capacity of one is unknown")
    return Verdict(_keep_direction(ratio, ceil(ratio * reading.ready), current))


def _by_resource(
    name: str, target: MetricTarget, instances: Sequence[InstanceUse], current: int, tolerance: Tolerance
) -> Verdict[int]:
    counted = [each for each in instances if each.state is Use.COUNTED]
    known = [each for each in counted if each.usage is not None]
    if not known or 2 * len(known) < len(counted):
        return _no(reasons.TOO_FEW_METRICS, name, f"{len(known)} of {len(counted)} instances have reported lately")
    ratio = _ratio(target, known)
    if ratio is None:
        return _no(reasons.METRICS_UNAVAILABLE, name, "the instances request none of it, so it has no utilization")
    assumed = _with_assumptions(target, ratio, instances)
    assumed_ratio = _ratio(target, assumed) or Fraction()
    if tolerance.covers(assumed_ratio) or (ratio - 1) * (assumed_ratio - 1) < 0:
        return Verdict(current)
    return Verdict(_keep_direction(assumed_ratio, ceil(assumed_ratio * len(assumed)), current))


def _with_assumptions(target: MetricTarget, ratio: Fraction, instances: Sequence[InstanceUse]) -> list[InstanceUse]:
    """Return the readings, with a cautious guess for missing ones: busy when scaling down, idle when scaling up."""
    found: list[InstanceUse] = []
    for each in instances:
        if each.state is Use.COUNTED and each.usage is not None:
            found.append(each)
        elif each.state is Use.COUNTED and ratio != 1:
            found.append(InstanceUse(_busy(target, each) if ratio < 1 else 0, each.request))
        elif each.state is Use.STARTING and ratio > 1:
            found.append(InstanceUse(0, each.request))
    return found


def _busy(target: MetricTarget, instance: InstanceUse) -> int:
    if target.average_utilization is not None:
        return instance.request * max(100, target.average_utilization) // 100
    return _plain_target(target)


def _ratio(target: MetricTarget, instances: Sequence[InstanceUse]) -> Fraction | None:
    """Return the usage relative to the target; None for a utilization target when the instances request nothing."""
    total = sum(each.usage or 0 for each in instances)
    if target.average_utilization is None:
        return Fraction(total // len(instances), _plain_target(target))
    requested = sum(each.request for each in instances)
    return Fraction(total * 100 // requested, target.average_utilization) if requested else None


def _plain_target(target: MetricTarget) -> int:
    """Return the target per instance. Only an average applies to instances' own usage, so `value` is read as one."""
    amount = target.average_value or target.value
    assert amount is not None, "admission lets no metric without a target through"
    return amount.milli()


def _keep_direction(ratio: Fraction, proposed: int, current: int) -> int:
    return max(proposed, current) if ratio > 1 else min(proposed, current)


def _divide_up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
