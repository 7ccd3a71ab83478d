"""How many instances a city should have by its metrics, with the arithmetic of autoscaling/v2.

Three steps, each a pure function: `metrics` turns one metric's readings into a number of instances, `recommendation`
takes the largest number over all metrics, `behavior` holds it against its recent past and the policies and keeps it
between minReplicas and maxReplicas. `scale` is all three.

Values are whole thousandths, as in Kubernetes. What the readings do not say never removes an instance: a metric that
cannot be read forbids going down, an instance without a reading counts as busy when going down and as idle when going
up, and when fewer than half have reported the number stays. Beyond Kubernetes, a metric above its target never lowers
the number and one below never raises it, even while instances that are wanted do not exist yet.
"""

from __future__ import annotations

from tarmac.decide.scaling.behavior import History, ScaleDecision, scale, stabilise
from tarmac.decide.scaling.metrics import ExternalReading, InstanceUse, Reading, ResourceReading, Unreadable, Use
from tarmac.decide.scaling.recommendation import Recommendation, recommend

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
