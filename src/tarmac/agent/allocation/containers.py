"""The allotment of one container: shares, quota, memory, and OOM score. Pure."""

from __future__ import annotations

from tarmac.agent.model.allotment import ContainerAllotment
from tarmac.agent.model.limits import MAX_MEMORY, PERIOD, quota
from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.weights import shares

GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
_NODE_CRITICAL = 2_000_001_000


def container_allotment(pod: AgentPod, container: JsonObject, memory_capacity: int) -> ContainerAllotment:
    """Return the allotment of a container; pod-level limits apply to containers without their own."""
    cpu_limit = _amount(container, "limits", "cpu") or _amount(pod.spec, "limits", "cpu")
    memory_limit = _amount(container, "limits", "memory") or _amount(pod.spec, "limits", "memory")
    stated = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    request = cpu_limit if stated is None else Quantity.parse(stated)
    limit = cpu_limit.milli()
    return ContainerAllotment(
        shares=shares(request.milli()),
        quota=quota(limit, PERIOD) if limit else 0,
        memory=min(memory_limit.value(), MAX_MEMORY),
        oom_score=oom_score(pod, container, memory_capacity),
    )


def oom_score(pod: AgentPod, container: JsonObject, memory_capacity: int) -> int:
    """Return the OOM score adjustment: the larger the memory request, the later the container is killed."""
    quality = qos_class(pod.spec)
    if quality == "Guaranteed" or (pod.spec.get("priority") or 0) >= _NODE_CRITICAL:
        return GUARANTEED_SCORE
    if quality == "BestEffort" or memory_capacity <= 0:
        return BEST_EFFORT_SCORE
    spare = _spare_per_container(pod)
    score = 1000 - 1000 * (_memory(container) + spare) // memory_capacity
    if is_sidecar(container) and container in pod.init_containers:
        least = min((_memory(each) for each in pod.containers), default=0)
        score = min(score, 1000 - 1000 * (least + spare) // memory_capacity)
    return max(1000 + GUARANTEED_SCORE, min(score, BEST_EFFORT_SCORE - 1))


def _spare_per_container(pod: AgentPod) -> int:
    """Return each container's share of a pod-level request beyond the sum of the containers' requests."""
    whole = _memory(pod.spec)
    lasting = [*pod.containers, *(each for each in pod.init_containers if is_sidecar(each))]
    if not whole or not lasting:
        return 0
    return max(0, whole - sum(_memory(each) for each in lasting)) // len(lasting)


def _memory(holder: JsonObject) -> int:
    return _amount(holder, "requests", "memory").value()


def _amount(holder: JsonObject, side: str, name: str) -> Quantity:
    return Quantity.parse(((holder.get("resources") or {}).get(side) or {}).get(name) or "0")
