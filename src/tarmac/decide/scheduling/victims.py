"""Preemption victims: recognition, display names for other namespaces, and their effect on disruption budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.decide.scheduling.demand import Pod
from tarmac.decide.scheduling.preemption import Guard

BY_SCHEDULER: Final = "PreemptionByScheduler"
_FEW: Final = 5


def is_preempted(pod: JsonObject) -> bool:
    """Return True if a pod is being deleted by preemption."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" in pod["metadata"] and any(each.get("reason") == BY_SCHEDULER for each in conditions)


def named(victims: Sequence[Pod], namespace: str) -> str:
    """Return the victims as a list for messages. Victims in other namespaces are only counted: names are private."""
    own = [each.name for each in victims if each.namespace == namespace]
    others = len(victims) - len(own)
    words = own if len(own) <= _FEW else [*own[:_FEW], f"{len(own) - _FEW} more"]
    words = [*words, f"{others} of other namespaces"] if others else words
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def spent(guards: Sequence[Guard], victims: Sequence[Pod]) -> list[Guard]:
    """Return the budgets after the eviction of these victims."""
    return [replace(guard, allowed=guard.allowed - sum(map(guard.protects, victims))) for guard in guards]
