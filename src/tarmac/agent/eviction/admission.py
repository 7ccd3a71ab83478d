"""Whether a node under pressure takes another pod. Pure.

Short of memory it takes all but those that ask for nothing (unless they tolerate it); short of anything else it takes
none. What the system cannot do without is always taken.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from tarmac.agent.eviction.ranking import is_critical
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject

REASON: Final = "Evicted"
_TAINT: Final = "node.kubernetes.io/memory-pressure"


def refusal(pod: JsonObject, conditions: Set[str]) -> tuple[str, str] | None:
    """Reason and message for a pod that may not come now."""
    if not conditions or is_critical(pod):
        return None
    if conditions == {"MemoryPressure"} and (qos_class(pod["spec"]) != "BestEffort" or _tolerates(pod)):
        return None
    return REASON, f"The node had condition: [{' '.join(sorted(conditions))}]. "


def _tolerates(pod: JsonObject) -> bool:
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("effect") not in (None, "", "NoSchedule"):
            continue
        key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
        if (not key and exists) or (key == _TAINT and (exists or not toleration.get("value"))):
            return True
    return False
