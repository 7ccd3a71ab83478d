"""The value and the target of a metric as text."""

from __future__ import annotations

from tarmac.api.compute.scaling import MetricSpec, MetricTarget
from tarmac.base.quantity import NANO, Quantity
from tarmac.decide.amounts import CPU, shown
from tarmac.decide.scaling.metrics import ExternalReading, Reading, ResourceReading, Use, metric_name


def measured(metric: MetricSpec, reading: Reading) -> str:
    """Return `cpu is at 170% of what is requested, 60% is wanted`; empty when the metric could not be read."""
    name, (value, wanted) = metric_name(metric), figures(metric, reading)
    if not value:
        return ""
    if metric.resource is not None:
        of = "of what is requested" if metric.resource.target.average_utilization is not None else "for each instance"
        return f"{name} is at {value} {of}, {wanted} is wanted"
    target = metric.external.target if metric.external is not None else MetricTarget()
    each = " for each instance" if target.average_value is not None else ""
    total = _thousandths(sum(reading.values)) if isinstance(reading, ExternalReading) else value
    return f"{name} is {total} in all, {wanted}{each} is wanted"


def figures(metric: MetricSpec, reading: Reading) -> tuple[str, str]:
    """Return the value and the target; the value is empty when the metric could not be read."""
    target = next((each.target for each in (metric.resource, metric.external) if each is not None), MetricTarget())
    if target.average_utilization is not None:
        wanted = f"{target.average_utilization}%"
    else:
        wanted = str(target.average_value or target.value or "")
    if isinstance(reading, ResourceReading) and metric.resource is not None:
        return _resource(metric.resource.name, target, reading), wanted
    if isinstance(reading, ExternalReading) and metric.external is not None:
        total, average = sum(reading.values), target.average_value is not None
        return _thousandths(total // reading.ready if average and reading.ready else total), wanted
    return "", wanted


def _thousandths(value: int) -> str:
    return str(Quantity(value * (NANO // 1000)))


def _resource(name: str, target: MetricTarget, reading: ResourceReading) -> str:
    known = [each for each in reading.instances if each.state is Use.COUNTED and each.usage is not None]
    total, requested = sum(each.usage or 0 for each in known), sum(each.request for each in known)
    if target.average_utilization is not None:
        return f"{total * 100 // requested if requested else 0}%"
    average = total // len(known) if known else 0
    return shown(name, average if name == CPU else average // 1000)
