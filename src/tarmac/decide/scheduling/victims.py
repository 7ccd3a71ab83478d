"""Those who go for a more important pod: how they are told apart, what they cost, and what others may know of them."""

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
    """Whether a pod ends for another."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" in pod["metadata"] and any(each.get("reason") == BY_SCHEDULER for each in conditions)


def named(victims: Sequence[Pod], namespace: str) -> str:
    """Victims as a list in words. Those of other namespaces are counted: their names are not for everybody."""
    own = [each.name for each in victims if each.namespace == namespace]
    others = len(victims) - len(own)
    words = own if len(own) <= _FEW else [*own[:_FEW], f"{len(own) - _FEW} more"]
    words = [*words, f"{others} of other namespaces"] if others else words
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def spent(guards: Sequence[Guard], victims: Sequence[Pod]) -> list[Guard]:
    """The budgets after these have gone."""
    return [replace(guard, allowed=guard.allowed - sum(map(guard.protects, victims))) for guard in guards]
