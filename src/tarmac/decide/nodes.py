"""What a node's condition means for the pods on it: taints, how fast they are given, and when a pod has to leave.

A node that says it is broken, or says nothing at all, takes no new pods from that moment. Driving away what runs on it
is another matter: nodes of a place are given up one after the other and slowly, more slowly when many are in trouble
together, and not at all when every node of a place is silent, since then it is more likely that the way to the place is
cut than that all its nodes died in the same minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"

_BY_CONDITION: Final = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_CORDONED: Final = "node.kubernetes.io/unschedulable"

OWN_KEYS: Final = frozenset((*_BY_CONDITION.values(), _CORDONED))
"""Taints of these keys are given and taken away here; all others belong to somebody else."""

_MANY: Final = 0.55  # share of nodes in trouble from which something else than nodes is likely the cause
_FEW_NODES: Final = 2  # of so few, even all say little
_LARGE: Final = 50
_USUAL_PAUSE, _LONG_PAUSE = 10.0, 100.0  # seconds between two nodes of one place


class Disruption(Enum):
    """How many nodes of a place are in trouble."""

    NONE = "none"  # a few at most
    PARTIAL = "partial"  # so many that it may not be the nodes' own fault
    CUT_OFF = "cut-off"  # nothing is heard from any of them


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """A toleration of a pod. `seconds` is None when it is for ever."""

    key: str
    exists: bool
    value: str
    effect: str
    seconds: float | None = None

    def covers(self, key: str, value: str) -> bool:
        """Whether it is about a NoExecute taint of this key and value."""
        if self.effect not in ("", NO_EXECUTE):
            return False
        if not self.key:
            return self.exists
        return self.key == key and (self.exists or self.value == value)


def keys_that_bar(conditions: Mapping[str, str], cordoned: bool) -> frozenset[str]:
    """Keys of the NoSchedule taints that a node should have, by its conditions (type to status)."""
    found = {key for (kind, status), key in _BY_CONDITION.items() if conditions.get(kind) == status}
    return frozenset(found | {_CORDONED} if cordoned else found)


def key_that_drives_away(readiness: str) -> str | None:
    """Key of the NoExecute taint that a node should have once it is given up."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(readiness)


def disruption(ready: int, not_ready: int, silent: int) -> Disruption:
    """The state of a place by its nodes."""
    total, troubled = ready + not_ready + silent, not_ready + silent
    if silent and silent == total:
        return Disruption.CUT_OFF
    if troubled > _FEW_NODES and troubled >= _MANY * total:
        return Disruption.PARTIAL
    return Disruption.NONE


def pause(state: Disruption, nodes: int) -> float | None:
    """Seconds between giving up two nodes of a place of this size; None: none is given up."""
    if state is Disruption.NONE:
        return _USUAL_PAUSE
    if state is Disruption.PARTIAL and nodes > _LARGE:
        return _LONG_PAUSE
    return None


def stays(tolerances: Sequence[TaintToleration], taints: Iterable[tuple[str, str]]) -> float | None:
    """How many seconds a pod stays on a node from the moment it got these NoExecute taints; None: for ever.

    Every taint must be tolerated, and the shortest time of all counts.
    """
    shortest: float | None = None
    for key, value in taints:
        fitting = [each for each in tolerances if each.covers(key, value)]
        if not fitting:
            return 0.0
        limits = [each.seconds for each in fitting if each.seconds is not None]
        if limits:
            least = max(0.0, min(limits))
            shortest = least if shortest is None else min(shortest, least)
    return shortest
