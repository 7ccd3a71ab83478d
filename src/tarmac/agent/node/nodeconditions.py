"""A Node's conditions, with kubelet's reasons and messages, since people and tools search for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.agent.model.gpus import GpuSandboxState
from tarmac.agent.model.machinestate import MachineState
from tarmac.agent.model.tunnelstate import TunnelState
from tarmac.api.compute.names import GPUS_SANDBOXABLE, MACHINES_READY
from tarmac.api.networking.tunnels import TUNNELS_REACHABLE
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339

RecordNodeEvent = Callable[[str, str], None]
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
    before: Sequence[JsonObject],
    pressures: frozenset[str],
    unready: str,
    now: float,
    record_event: RecordNodeEvent,
    tunnels: TunnelState | None = None,
    machines: MachineState | None = None,
    gpus: GpuSandboxState | None = None,
) -> list[JsonObject]:
    """Return the node's own conditions, Ready last. `unready` is the reason why it is not; empty if it is.

    Without a state of `tunnels`, `machines` or `gpus` the server keeps its condition: a starting agent does not know it
    yet.
    """
    known = {each["type"]: each for each in before}
    found: list[JsonObject] = []
    for kind in PRESSURES:
        wording = _SHORT[kind] if kind in pressures else _FINE[kind]
        status = "True" if kind in pressures else "False"
        found.append(_condition(known.get(kind), kind, status, wording.reason, wording.message, now))
        if known.get(kind, {}).get("status") != status:
            record_event(wording.event, wording.event)
    if tunnels is not None:
        found.append(_tunnels(known.get(TUNNELS_REACHABLE), tunnels, now, record_event))
    if machines is not None:
        found.append(_machines(known.get(MACHINES_READY), machines, now))
    if gpus is not None:
        found.append(_gpus(known.get(GPUS_SANDBOXABLE), gpus, now))
    found.append(_ready(known.get("Ready"), unready, now, record_event))
    return found


def _tunnels(before: JsonObject | None, state: TunnelState, now: float, record_event: RecordNodeEvent) -> JsonObject:
    status = "True" if state.reachable else "False"
    # Without an earlier condition only a problem is news.
    if (before["status"] if before else "True") != status:
        record_event(state.reason, state.message)
    return _condition(before, TUNNELS_REACHABLE, status, state.reason, state.message, now)


def _machines(before: JsonObject | None, state: MachineState, now: float) -> JsonObject:
    status = "True" if state.ready else "False"
    return _condition(before, MACHINES_READY, status, state.reason, state.message, now)


def _gpus(before: JsonObject | None, state: GpuSandboxState, now: float) -> JsonObject:
    status = "True" if state.sandboxable else "False"
    return _condition(before, GPUS_SANDBOXABLE, status, state.reason, state.message, now)


def _ready(before: JsonObject | None, unready: str, now: float, record_event: RecordNodeEvent) -> JsonObject:
    status = "False" if unready else "True"
    if before is not None and before["status"] != status:
        event = "NodeNotReady" if unready else "NodeReady"
        record_event(event, event)
    if unready:
        return _condition(before, "Ready", status, "KubeletNotReady", unready, now)
    return _condition(before, "Ready", status, "KubeletReady", "kubelet is posting ready status", now)


def _condition(before: JsonObject | None, kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    # Kept while the status is the same: a new time would be a difference, and a write in every report.
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
    """Return True if the server has our conditions already, apart from heartbeats."""
    known = {each["type"]: each for each in before}
    return all(_quiet(each) == _quiet(known.get(each["type"], {})) for each in ours)


def _quiet(condition: JsonObject) -> JsonObject:
    return {name: value for name, value in condition.items() if name != "lastHeartbeatTime"}
