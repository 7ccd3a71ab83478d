"""The columns of `kubectl get pods`, with the summaries STATUS and RESTARTS."""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.conditions import stated
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, cell, field
from tarmac.api.kubernetes.core.pods.phases import TERMINAL
from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.resource import Age
from tarmac.api.schema import JsonObject


class ContainerSummary(NamedTuple):
    """The summary of all container states."""

    ready: int
    total: int
    reason: str
    restarts: int
    last_restart: str  # RFC 3339, which sorts as text; empty when unknown


class _Initialisation(NamedTuple):
    reason: str | None  # reason why initialisation is not finished; None if it is
    ready: int
    restarts: int
    last_restart: str
    sidecar_restarts: int
    sidecar_last_restart: str


def summarise(pod: JsonObject) -> ContainerSummary:
    """Summarise all container statuses in one pass."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    init = _initialisation(spec, status)
    total = len(spec.get("containers") or ()) + sum(map(is_sidecar, spec.get("initContainers") or ()))
    reason, ready = init.reason or _phase_reason(status), init.ready
    restarts, last = init.restarts, init.last_restart
    if init.reason is None or _condition(status, "Initialized") == "True":
        restarts, last = init.sidecar_restarts, init.sidecar_last_restart
        reason, running, more, last = _running(status, reason, last)
        ready += running
        restarts += more
    return ContainerSummary(ready, total, _deleted_reason(pod, status) or reason, restarts, last)


def _phase_reason(status: JsonObject) -> str:
    if stated(status.get("conditions"), "PodScheduled").get("reason") == "SchedulingGated":
        return "SchedulingGated"
    return status.get("reason") or status.get("phase", "")


def _deleted_reason(pod: JsonObject, status: JsonObject) -> str | None:
    if not pod["metadata"].get("deletionTimestamp"):
        return None
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return None if status.get("phase") in TERMINAL else "Terminating"


def _initialisation(spec: JsonObject, status: JsonObject) -> _Initialisation:
    containers = {container.get("name"): container for container in objects(spec, "initContainers")}
    ready = restarts = sidecar_restarts = 0
    last = sidecar_last = ""
    for index, state in enumerate(objects(status, "initContainerStatuses")):
        finished = mapping(state, "lastState", "terminated").get("finishedAt") or ""
        restarts += state.get("restartCount", 0)
        last = max(last, finished)
        sidecar = is_sidecar(containers.get(state.get("name")) or {})
        if sidecar:
            sidecar_restarts += state.get("restartCount", 0)
            sidecar_last = max(sidecar_last, finished)
        ended = mapping(state, "state").get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if sidecar and state.get("started"):
            ready += bool(state.get("ready"))
            continue
        reason = _stuck_reason(state, ended, index, len(containers))
        return _Initialisation(reason, ready, restarts, last, sidecar_restarts, sidecar_last)
    return _Initialisation(None, ready, restarts, last, sidecar_restarts, sidecar_last)


def _stuck_reason(state: JsonObject, ended: JsonObject | None, index: int, total: int) -> str:
    if ended is not None:
        return f"Init:{_end_reason(ended)}"
    waiting = mapping(state, "state", "waiting").get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _end_reason(ended: JsonObject) -> str:
    if reason := ended.get("reason"):
        return reason
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _running(status: JsonObject, reason: str, last: str) -> tuple[str, int, int, str]:
    """Return reason, ready containers, restarts and last restart; the first container takes precedence."""
    ready = restarts = 0
    failure = ""
    for state in reversed(objects(status, "containerStatuses")):
        restarts += state.get("restartCount", 0)
        last = max(last, mapping(state, "lastState", "terminated").get("finishedAt") or "")
        current = mapping(state, "state")
        ended = current.get("terminated")
        if waiting := mapping(current, "waiting").get("reason"):
            reason = waiting
        elif ended is not None:
            reason = _end_reason(ended)
            if ended.get("exitCode"):
                failure = reason
        elif state.get("ready") and current.get("running") is not None:
            ready += 1
    if reason == "Completed":
        if ready and _condition(status, "Ready") == "True":
            reason = "Running"
        elif failure:
            reason = failure
        elif ready:
            reason = "NotReady"
    return reason, ready, restarts, last


def _condition(status: JsonObject, type: str) -> str | None:
    return stated(status.get("conditions"), type).get("status")


def _ready(pod: JsonObject) -> str:
    summary = summarise(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: JsonObject) -> Age | str:
    summary = summarise(pod)
    if summary.restarts and summary.last_restart:
        return Age(summary.last_restart, f"{summary.restarts} (%s ago)")
    return str(summary.restarts)


def _address(pod: JsonObject) -> str:
    addresses = objects(pod, "status", "podIPs")
    return (addresses[0].get("ip") if addresses else mapping(pod, "status").get("podIP")) or NONE


def _readiness_gates(pod: JsonObject) -> str:
    gates = objects(pod, "spec", "readinessGates")
    if not gates:
        return NONE
    status = mapping(pod, "status")
    true = sum(_condition(status, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{true}/{len(gates)}"


COLUMNS = (
    NAME,
    cell("Ready", _ready, "The aggregate readiness state of this pod for accepting traffic."),
    cell("Status", lambda pod: summarise(pod).reason, "The aggregate status of the containers in this pod."),
    cell(
        "Restarts",
        _restarts,
        "The number of times the containers in this pod have been restarted and when the last container in this pod "
        "has restarted.",
    ),
    AGE,
    cell("IP", _address, ".status.podIP", wide=True),
    field("Node", ".spec.nodeName", default=NONE, wide=True),
    field("Nominated Node", ".status.nominatedNodeName", default=NONE, wide=True),
    cell("Readiness Gates", _readiness_gates, ".spec.readinessGates", wide=True),
)
