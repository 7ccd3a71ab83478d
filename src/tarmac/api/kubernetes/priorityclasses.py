"""The priority that a class gives to a Pod, and the two built-in classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.api.schema import JsonObject

BUCKET: Final = "scheduling.k8s.io/priorityclasses"
PREEMPTS: Final = "PreemptLowerPriority"
NO_CLASS: Final[JsonObject] = {"value": 0, "preemptionPolicy": PREEMPTS}
# They apply even if no such objects are stored.
SYSTEM: Final[dict[str, JsonObject]] = {
    "system-cluster-critical": {"value": 2_000_000_000, "preemptionPolicy": PREEMPTS},
    "system-node-critical": {"value": 2_000_001_000, "preemptionPolicy": PREEMPTS},
}


def default_class(classes: Iterable[JsonObject]) -> JsonObject | None:
    """Return the class of Pods that name none, if there is one."""
    return min(
        (each for each in classes if each.get("globalDefault")), key=lambda each: each.get("value", 0), default=None
    )
