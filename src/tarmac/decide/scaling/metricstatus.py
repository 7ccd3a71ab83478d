"""The metrics in a deployment's status, written only on significant changes, so that noise causes no writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.workload import Scaling, ScalingMetric
from tarmac.api.declare import Time
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.quantity import Quantity
from tarmac.decide.scaling.measuring import figures
from tarmac.decide.scaling.metrics import Reading, metric_name, propose
from tarmac.decide.scaling.tolerance import Tolerance

SECONDS_BETWEEN: Final = 60.0


def reported_scaling(
    settings: ScaleSettings, readings: Sequence[Reading], current: int, wanted: int, old: Scaling | None, now: float
) -> Scaling:
    """Return the metrics to write.

    These are the old ones while they are less than a minute old, or while nothing significant has changed.
    """
    if old is not None and old.time is not None and 0 <= now - parse_rfc3339(old.time) < SECONDS_BETWEEN:
        return old
    tolerance = Tolerance.of(settings.behavior)
    metrics = [
        ScalingMetric(
            metric_name(metric), *figures(metric, reading), propose(metric, reading, current, tolerance).value
        )
        for metric, reading in zip(settings.metrics, readings, strict=True)
    ]
    new = Scaling(metrics, wanted, Time(rfc3339(now)))
    return new if old is None or _is_news(old, new) else old


def _is_news(old: Scaling, new: Scaling) -> bool:
    names = [[(each.name, each.target) for each in found.metrics] for found in (old, new)]
    if old.wanted != new.wanted or names[0] != names[1]:
        return True
    return any(_has_moved(one.value, other.value) for one, other in zip(old.metrics, new.metrics, strict=True))


def _has_moved(old: str, new: str) -> bool:
    """Return True if the value changed by a tenth, or became known or unknown."""
    if not old or not new:
        return old != new
    before, after = (Quantity.parse(text.removesuffix("%")).nanos for text in (old, new))
    return before != after and abs(after - before) * 10 >= abs(before)
