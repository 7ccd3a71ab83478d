"""Computes the number of instances a city should have by its metrics, with the arithmetic of autoscaling/v2.

Three steps, each a pure function: `metrics` turns one metric's readings into a number of instances, `recommendation`
takes the largest number over all metrics, `behavior` applies stabilization windows and policies and keeps the number
between minReplicas and maxReplicas. `scale` is all three.

Values are whole thousandths, as in Kubernetes. Missing readings never remove an instance: an unreadable metric forbids
scaling down, an instance without a reading counts as busy when scaling down and as idle when scaling up, and when fewer
than half have reported the number stays. Unlike in Kubernetes, a metric above its target never lowers the number and
one below never raises it, even while wanted instances do not exist yet.
"""

from __future__ import annotations

from tarmac.decide.scaling.behavior import History, Recommendation, ScaleDecision, recommend, scale, stabilise
from tarmac.decide.scaling.metrics import ExternalReading, InstanceUse, Reading, ResourceReading, Unreadable, Use

__all__ = [
    "ExternalReading",
    "History",
    "InstanceUse",
    "Reading",
    "Recommendation",
    "ResourceReading",
    "ScaleDecision",
    "Unreadable",
    "Use",
    "recommend",
    "scale",
    "stabilise",
]
