"""Admission of new pods to a node under pressure. Pure.

Under memory pressure only BestEffort pods are rejected (unless they tolerate it); under any other pressure all pods
are. Critical pods are always admitted.
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
    """Return reason and message for a rejected pod, or None."""
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
