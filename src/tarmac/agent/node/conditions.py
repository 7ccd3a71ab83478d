"""A Node's conditions, in the words kubelets use, since people and tools search for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339

Tell = Callable[[str, str], None]
"""(reason of an event, message)"""


@dataclass(frozen=True, slots=True)
class _Wording:
    reason: str
    message: str
    event: str


_SHORT: Final = {
    "MemoryPressure": _Wording(
        "KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"
    ),
    "DiskPressure": _Wording("KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"),
    "PIDPressure": _Wording(
        "KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"
    ),
}
_FINE: Final = {
    "MemoryPressure": _Wording(
        "KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"
    ),
    "DiskPressure": _Wording("KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    "PIDPressure": _Wording("KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
}
PRESSURES: Final = tuple(_SHORT)


def conditions(
    before: Sequence[JsonObject], pressures: frozenset[str], unready: str, now: float, tell: Tell
) -> list[JsonObject]:
    """The node's own conditions, Ready last. `unready` says why it is not; empty when it is."""
    known = {each["type"]: each for each in before}
    found: list[JsonObject] = []
    for kind in PRESSURES:
        wording = _SHORT[kind] if kind in pressures else _FINE[kind]
        status = "True" if kind in pressures else "False"
        found.append(_condition(known.get(kind), kind, status, wording.reason, wording.message, now))
        if known.get(kind, {}).get("status") != status:
            tell(wording.event, wording.event)
    found.append(_ready(known.get("Ready"), unready, now, tell))
    return found


def _ready(before: JsonObject | None, unready: str, now: float, tell: Tell) -> JsonObject:
    status = "False" if unready else "True"
    if before is not None and before["status"] != status:
        event = "NodeNotReady" if unready else "NodeReady"
        tell(event, event)
    if unready:
        return _condition(before, "Ready", status, "KubeletNotReady", unready, now)
    return _condition(before, "Ready", status, "KubeletReady", "kubelet is posting ready status", now)


def _condition(before: JsonObject | None, kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    since = before.get("lastTransitionTime") if before and before.get("status") == status else None
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": since or rfc3339(now),
        "reason": reason,
        "message": message,
    }


def same_conditions(ours: Sequence[JsonObject], before: Sequence[JsonObject]) -> bool:
    """Whether the server knows our conditions already, heartbeats aside."""
    known = {each["type"]: each for each in before}
    return all(_quiet(each) == _quiet(known.get(each["type"], {})) for each in ours)


def _quiet(condition: JsonObject) -> JsonObject:
    return {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
