"""The largest answer over all metrics."""

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
    """A number of instances, the metric that asks for it, and what that metric is and should be."""

    replicas: int
    metric: str
    measured: str = ""


def recommend(settings: ScaleSettings, readings: Sequence[Reading], current: int) -> Verdict[Recommendation]:
    """What the metrics ask for; `readings` are in the order of the settings' metrics.

    When a metric says nothing, the others may still raise the number, but not lower it: the silent one might need
    what they would take away. The verdict is then a "no", and the number stays.
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
