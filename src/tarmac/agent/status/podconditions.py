"""The pod conditions that the node maintains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.decide.reasons import CATALOGUE

OURS = frozenset(
    {
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
        "PodResizePending",
        "PodResizeInProgress",
    }
)
_Statuses = Mapping[str, JsonObject]


def pod_conditions(
    pod: AgentPod,
    statuses: Iterable[JsonObject],
    phase: str,
    *,
    has_sandbox: bool,
    others: Sequence[JsonObject],
    still: str = "",
) -> list[JsonObject]:
    """Return `others`, then the node's conditions, without times. `still` is the reason of a paused container."""
    by_name = {each["name"]: each for each in statuses}
    containers_ready = _containers_ready(pod, by_name, phase)
    ours = [
        {"type": "PodReadyToStartContainers", "status": "True" if has_sandbox else "False"},
        {"type": "Initialized", **_initialized(pod, by_name, phase)},
        {"type": "Ready", **(_standing(still) if still else _ready(pod, containers_ready, others))},
        {"type": "ContainersReady", **containers_ready},
        {"type": "PodScheduled", "status": "True"},
    ]
    generation = {"observedGeneration": pod.generation} if pod.generation else {}
    return [*others, *({**each, **generation} for each in ours)]


def with_times(conditions: list[JsonObject], old: Iterable[JsonObject], now: float) -> list[JsonObject]:
    """Add to each condition the time of its last status change."""
    before = {each["type"]: each for each in old}
    for condition in conditions:
        known = before.get(condition["type"])
        # Kept while the status stays the same: a new time would be a difference, and a write in every pass.
        if known is not None and known["status"] == condition["status"] and known.get("lastTransitionTime"):
            condition["lastTransitionTime"] = known["lastTransitionTime"]
        else:
            condition.setdefault("lastTransitionTime", rfc3339(now))
    return conditions


_TRUE: JsonObject = {"status": "True"}


def _false(reason: str, message: str = "") -> JsonObject:
    return {"status": "False", "reason": reason, **({"message": message} if message else {})}


def _containers_ready(pod: AgentPod, statuses: _Statuses, phase: str) -> JsonObject:
    lasting = [*(each for each in pod.init_containers if is_sidecar(each)), *pod.containers]
    unknown = [each["name"] for each in lasting if each["name"] not in statuses]
    unready = [each["name"] for each in lasting if each["name"] in statuses and not statuses[each["name"]]["ready"]]
    if phase == "Succeeded" and not unknown:
        return _false("PodCompleted")
    if phase == "Failed":
        return _false("PodFailed")
    message = _listed(unknown, unready, "unready")
    return _false("ContainersNotReady", message) if message else _TRUE


def _listed(unknown: list[str], lacking: list[str], what: str) -> str:
    parts = [f"containers with unknown status: [{' '.join(unknown)}]"] if unknown else []
    if lacking:
        parts.append(f"containers with {what} status: [{' '.join(lacking)}]")
    return ", ".join(parts)


def _ready(pod: AgentPod, containers_ready: JsonObject, others: Sequence[JsonObject]) -> JsonObject:
    if containers_ready["status"] != "True":
        return containers_ready
    gates = [gate["conditionType"] for gate in pod.spec.get("readinessGates") or ()]
    missing = readiness(gates, {each["type"]: each["status"] for each in others})
    return _false("ReadinessGatesNotReady", missing) if missing else _TRUE


def readiness(gates: Iterable[str], statuses: Mapping[str, str]) -> str:
    """The readiness gates that are not satisfied; empty if all are."""
    missing: list[str] = []
    for kind in gates:
        if kind not in statuses:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif statuses[kind] != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {statuses[kind]}')
    return ", ".join(missing)


def _standing(reason: str) -> JsonObject:
    known = CATALOGUE.get(reason)
    return _false(reason, known.text if known is not None else "")


def _initialized(pod: AgentPod, statuses: _Statuses, phase: str) -> JsonObject:
    unknown = [each["name"] for each in pod.init_containers if each["name"] not in statuses]
    if phase == "Succeeded" and not unknown:
        return {"status": "True", "reason": "PodCompleted"}
    if any(_has_run(statuses.get(each["name"])) for each in pod.containers):
        return _TRUE
    incomplete = [
        each["name"]
        for each in pod.init_containers
        if each["name"] in statuses and not statuses[each["name"]]["started" if is_sidecar(each) else "ready"]
    ]
    message = _listed(unknown, incomplete, "incomplete")
    return _false("ContainersNotInitialized", message) if message else _TRUE


def _has_run(status: JsonObject | None) -> bool:
    return status is not None and ("running" in status["state"] or "terminated" in status["state"])
