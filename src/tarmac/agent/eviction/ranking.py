"""Ranks pods for eviction. Pure.

For memory and disk: pods above their requests first, then by priority, then by the excess. For processes: by priority,
then by their number. Static and system-critical pods are never evicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tarmac.agent.stats.podstats import PodMetrics
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.reservations import STORAGE
from tarmac.decide.allocatable.thresholds import ALLOCATABLE_MEMORY, MEMORY_AVAILABLE, PID_AVAILABLE
from tarmac.decide.amounts import MEMORY, shown

_INODE_SIGNALS: Final = "inodesFree"
_SYSTEM_CRITICAL: Final = 2_000_000_000
_SOURCE: Final = "kubernetes.io/config.source"


def resource_of(signal: str) -> str:
    """Return the resource of a signal, as named in messages."""
    if signal in (MEMORY_AVAILABLE, ALLOCATABLE_MEMORY):
        return MEMORY
    if signal == PID_AVAILABLE:
        return "pids"
    return "inodes" if signal.endswith(_INODE_SIGNALS) else STORAGE


def ranked(signal: str, pods: Sequence[JsonObject], metrics: Mapping[str, PodMetrics]) -> list[JsonObject]:
    """Return the pods that may be evicted, in order of eviction."""
    resource = resource_of(signal)
    candidates = [pod for pod in pods if not is_critical(pod)]
    usage = _USAGE[resource]

    def key(pod: JsonObject) -> tuple[bool, int, int]:
        # Without figures it counts as using nothing: such a pod is evicted last among its priority.
        used = usage(metrics[pod["metadata"]["uid"]]) if pod["metadata"]["uid"] in metrics else 0
        asked = requested(pod, resource)
        exceeds = resource in (MEMORY, STORAGE) and used > asked
        return not exceeds, priority(pod), asked - used

    return sorted(candidates, key=key)


_USAGE: Final[Mapping[str, Callable[[PodMetrics], int]]] = {
    MEMORY: lambda metrics: metrics.memory,
    STORAGE: lambda metrics: metrics.ephemeral,
    "inodes": lambda metrics: metrics.inodes,
    "pids": lambda metrics: metrics.processes,
}


def requested(pod: JsonObject, resource: str) -> int:
    """Return the pod's request; 0 for resources without requests."""
    amount = pod_amounts(pod["spec"], "requests").get(resource)
    return amount.value() if amount is not None else 0


def priority(pod: JsonObject) -> int:
    """Return the pod's priority."""
    return pod["spec"].get("priority") or 0


def is_critical(pod: JsonObject) -> bool:
    """Return True for static and system-critical pods."""
    source = (pod["metadata"].get("annotations") or {}).get(_SOURCE, "api")
    return source != "api" or priority(pod) >= _SYSTEM_CRITICAL


def message(signal: str, pod: JsonObject, metrics: PodMetrics | None, least: int, available: int) -> str:
    """Return kubelet's message about the eviction."""
    resource = resource_of(signal)
    text = f"The node was low on resource: {resource}. "
    text += f"Threshold quantity: {shown(resource, least)}, available: {shown(resource, available)}. "
    if metrics is None or resource not in (MEMORY, STORAGE):
        return text
    by_name = {each["name"]: each for each in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))}
    for container in metrics.containers:
        spec = by_name.get(container.name)
        usage = container.measured.usage
        used = usage.memory_working_set if resource == MEMORY else usage.disk + container.logs
        asked = requested({"spec": {"containers": [spec]}}, resource) if spec else 0
        if spec is not None and used > asked:
            text += (
                f"Container {container.name} was using {shown(resource, used)}, request is {shown(resource, asked)}, "
                f"has larger consumption of {resource}. "
            )
    return text
