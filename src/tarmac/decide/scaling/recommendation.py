"""Selects the largest proposal over all metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api.compute.scaling import ScaleSettings
from tarmac.decide.scaling.measuring import measured
from tarmac.decide.scaling.metrics import Reading, metric_name, propose
from tarmac.decide.scaling.tolerance import Tolerance
from tarmac.decide.verdict import Refusal, Verdict


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A number of instances, the metric that asks for it, and that metric's value and target as text."""

    replicas: int
    metric: str
    measured: str = ""


def recommend(settings: ScaleSettings, readings: Sequence[Reading], current: int) -> Verdict[Recommendation]:
    """Return the number the metrics ask for; `readings` are in the order of the settings' metrics.

    While a metric is unavailable, the remaining ones may raise the number, but not lower it: the unavailable one might
    need the instances. The verdict is then a refusal, and the number stays.
    """
    tolerance = Tolerance.of(settings.behavior)
    best: Recommendation | None = None
    refusals: list[Refusal] = []
    for metric, reading in zip(settings.metrics, readings, strict=True):
        proposal = propose(metric, reading, current, tolerance)
        refusals += proposal.refusals
        if proposal.value is not None and (best is None or proposal.value > best.replicas):
            best = Recommendation(proposal.value, metric_name(metric), measured(metric, reading))
    if best is not None and refusals and best.replicas < current:
        best = None
    return Verdict(best, tuple(refusals))
