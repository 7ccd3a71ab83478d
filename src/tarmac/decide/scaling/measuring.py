"""What a metric is and what it should be, in one clause for people."""

from __future__ import annotations

from tarmac.api.compute.scaling import MetricSpec, MetricTarget
from tarmac.base.quantity import NANO, Quantity
from tarmac.decide.scaling.metrics import ExternalReading, Reading, ResourceReading, Use, metric_name
from tarmac.decide.scheduling.amounts import CPU, shown


def measured(metric: MetricSpec, reading: Reading) -> str:
    """`cpu is at 170% of what is requested, 60% is wanted`; empty when it could not be read."""
    name = metric_name(metric)
    if isinstance(reading, ResourceReading) and metric.resource is not None:
        return _resource(name, metric.resource.target, reading)
    if isinstance(reading, ExternalReading) and metric.external is not None:
        return _external(name, metric.external.target, reading)
    return ""


def _resource(name: str, target: MetricTarget, reading: ResourceReading) -> str:
    known = [each for each in reading.instances if each.state is Use.COUNTED and each.usage is not None]
    total, requested = sum(each.usage or 0 for each in known), sum(each.request for each in known)
    if target.average_utilization is not None:
        now = total * 100 // requested if requested else 0
        return f"{name} is at {now}% of what is requested, {target.average_utilization}% is wanted"
    wanted, average = target.average_value or target.value, total // len(known) if known else 0
    now = shown(name, average if name == CPU else average // 1000)
    return f"{name} is at {now} for each instance, {wanted} is wanted"


def _external(name: str, target: MetricTarget, reading: ExternalReading) -> str:
    total = Quantity(sum(reading.values) * (NANO // 1000))
    each = " for each instance" if target.average_value is not None else ""
    return f"{name} is {total} in all, {target.average_value or target.value}{each} is wanted"
