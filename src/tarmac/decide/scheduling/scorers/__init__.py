"""Preferences among nodes, one small file each.

`DEMAND_SCORERS` use the pod's demand and are prepared once per template; `POD_SCORERS` also use other pods, and are
prepared anew for every pod. A score is between 0 and 100 times its weight.
"""

from __future__ import annotations

from tarmac.decide.scheduling.scorers.affinity import PreferredNodes
from tarmac.decide.scheduling.scorers.allocation import LeastAllocated
from tarmac.decide.scheduling.scorers.devices import GpuAvoidance, GpuPacking
from tarmac.decide.scheduling.scorers.images import ImageLocality
from tarmac.decide.scheduling.scorers.neighbours import PreferredPods
from tarmac.decide.scheduling.scorers.score import Score, Scorer
from tarmac.decide.scheduling.scorers.spread import EvenSpread
from tarmac.decide.scheduling.scorers.taints import FewTaints

DEMAND_SCORERS: tuple[Scorer, ...] = (
    LeastAllocated(),
    GpuAvoidance(),
    GpuPacking(),
    PreferredNodes(),
    FewTaints(),
    ImageLocality(),
)
POD_SCORERS: tuple[Scorer, ...] = (EvenSpread(), PreferredPods())

__all__ = ["DEMAND_SCORERS", "POD_SCORERS", "Score", "Scorer"]
