"""Effects of a node's conditions on its pods: taints, their rate, and the time of eviction.

A node that reports NotReady, or is silent, takes no new pods from that moment. Evicting its running pods is a separate
decision: the nodes of a place are given up one after the other, slowly, and more slowly when many fail together in a
large place. None is given up when many fail in a small place, or when every node of a place is silent, since then a
lost connection to the place is more likely than the failure of all its nodes in the same minute.
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
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"

OWN_KEYS: Final = frozenset((*_BY_CONDITION.values(), UNSCHEDULABLE))
"""Keys of taints that are managed here; taints with any other key belong to other controllers or users."""

_MANY: Final = 0.55  # share of failed nodes from which the nodes themselves are probably not the cause
_FEW_NODES: Final = 2  # up to this number, even all nodes failing indicates little
_LARGE: Final = 50
_USUAL_PAUSE, _LONG_PAUSE = 10.0, 100.0  # seconds between two nodes of one place


class Disruption(Enum):
    """The extent of node failures in a place."""

    NONE = "none"  # a few at most
    PARTIAL = "partial"  # so many that the nodes may not be the cause
    CUT_OFF = "cut-off"  # all nodes are silent


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """A toleration of a pod. `seconds` is None when it is unlimited."""

    key: str
    exists: bool
    value: str
    effect: str
    seconds: float | None = None

    def covers(self, key: str, value: str) -> bool:
        """Return True if it tolerates a NoExecute taint of this key and value."""
        if self.effect not in ("", NO_EXECUTE):
            return False
        if not self.key:
            return self.exists
        return self.key == key and (self.exists or self.value == value)


def keys_that_bar(conditions: Mapping[str, str], cordoned: bool) -> frozenset[str]:
    """Return the keys of the NoSchedule taints that a node should have, by its conditions (type to status)."""
    found = {key for (kind, status), key in _BY_CONDITION.items() if conditions.get(kind) == status}
    return frozenset(found | {UNSCHEDULABLE} if cordoned else found)


def key_that_drives_away(readiness: str) -> str | None:
    """Return the key of the NoExecute taint that a node should have once it is given up."""
    return {"False": NOT_READY, "Unknown": UNREACHABLE}.get(readiness)


def disruption(ready: int, not_ready: int, silent: int) -> Disruption:
    """Return the disruption of a place from the states of its nodes."""
    total, troubled = ready + not_ready + silent, not_ready + silent
    if silent and silent == total:
        return Disruption.CUT_OFF
    if troubled > _FEW_NODES and troubled >= _MANY * total:
        return Disruption.PARTIAL
    return Disruption.NONE


def pause(state: Disruption, nodes: int) -> float | None:
    """Return the seconds between giving up two nodes of a place of this size; None: none is given up."""
    if state is Disruption.NONE:
        return _USUAL_PAUSE
    if state is Disruption.PARTIAL and nodes > _LARGE:
        return _LONG_PAUSE
    return None


def stays(tolerances: Sequence[TaintToleration], taints: Iterable[tuple[str, str]]) -> float | None:
    """Return the seconds that a pod stays on a node after it got these NoExecute taints; None: without limit.

    Every taint must be tolerated, and the shortest toleration counts.
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
