"""Computes the phase of a pod from the states of its containers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tarmac.agent.model.pod import AgentPod, is_sidecar, restarts_after
from tarmac.api.schema import JsonObject


@dataclass(slots=True)
class _Count:
    unknown: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    for_good: int = 0
    succeeded: int = 0
    pending_init: int = 0
    pending_sidecars: int = 0


def phase(pod: AgentPod, statuses: Iterable[JsonObject], *, over: bool, initialized: bool) -> str:
    """Return Pending, Running, Succeeded or Failed. `over`: no container restarts, regardless of the restart policy."""
    by_name = {each["name"]: each for each in statuses}
    count = _Count()
    for container in pod.init_containers:
        status = by_name.get(container["name"])
        if is_sidecar(container):
            _sidecar(count, status)
        elif _init_failed(count, pod, container, status):
            return "Failed"
    for container in pod.containers:
        _plain(count, pod, container, by_name.get(container["name"]))
    return _verdict(pod, count, over, initialized)


def _verdict(pod: AgentPod, count: _Count, over: bool, initialized: bool) -> str:
    if count.pending_init or (count.pending_sidecars and not initialized) or count.waiting:
        return "Pending"
    if count.running and not count.unknown:
        return "Running"
    if not count.running and count.stopped and not count.unknown:
        if not (over and not pod.static) and count.stopped != count.for_good:
            return "Running"  # at least one will restart
        return "Succeeded" if count.stopped == count.succeeded else "Failed"
    return "Pending"


def _init_failed(count: _Count, pod: AgentPod, container: JsonObject, status: JsonObject | None) -> bool:
    """Count an init container; return True if it failed for good."""
    ended = _ended(status)
    if ended is None:
        count.pending_init += 1
        return False
    return ended != 0 and not restarts_after(pod, container, ended)


def _ended(status: JsonObject | None) -> int | None:
    """Return the exit code of a container that has ended and is not running again."""
    if status is None or "running" in status["state"]:
        return None
    terminated = status["state"].get("terminated") or (status.get("lastState") or {}).get("terminated")
    return None if terminated is None else terminated["exitCode"]


def _sidecar(count: _Count, status: JsonObject | None) -> None:
    if status is None:
        count.unknown += 1
    elif "running" in status["state"]:
        count.running += 1
        count.pending_sidecars += not status.get("started")
    elif _ended(status) is None:
        count.waiting += 1
        count.pending_sidecars += 1


def _plain(count: _Count, pod: AgentPod, container: JsonObject, status: JsonObject | None) -> None:
    if status is None:
        count.unknown += 1
        return
    if "running" in status["state"]:
        count.running += 1
        return
    ended = _ended(status)
    if ended is None:
        count.waiting += 1
        return
    count.stopped += 1
    count.for_good += not restarts_after(pod, container, ended)
    count.succeeded += "terminated" in status["state"] and ended == 0
