"""Which number a priority class gives to a Pod, and the two classes that every cluster has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.api.schema import JsonObject

BUCKET: Final = "scheduling.k8s.io/priorityclasses"
PREEMPTS: Final = "PreemptLowerPriority"
NO_CLASS: Final[JsonObject] = {"value": 0, "preemptionPolicy": PREEMPTS}
# Always there, whether or not anybody has stored them.
SYSTEM: Final[dict[str, JsonObject]] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": PREEMPTS},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": PREEMPTS},
}


def default_class(classes: Iterable[JsonObject]) -> JsonObject | None:
    """The class of Pods that name none, if there is one."""
    return min(
        (each for each in classes if each.get("globalDefault")), key=lambda each: each.get("value", 0), default=None
    )
