"""Requests and limits as what the kernel is told: shares, quota, bytes and who goes first when memory runs out."""

from __future__ import annotations

from tarmac.agent.cgroups.limits import MOST_MEMORY, MOST_QUOTA
from tarmac.agent.pods.pod import Pod, is_sidecar
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.runtimes.interface import Resources

PERIOD = 100_000
SMALLEST_QUOTA = 1_000
FEWEST_SHARES = 2
MOST_SHARES = 262_144
GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
_NODE_CRITICAL = 2_000_001_000


def shares(milli: int) -> int:
    """Relative weight of so many thousandths of a processor."""
    return max(FEWEST_SHARES, min(milli * 1024 // 1000, MOST_SHARES))


def quota(milli: int) -> int:
    """Microseconds of each period; 0 for no limit."""
    return max(SMALLEST_QUOTA, min(milli * PERIOD // 1000, MOST_QUOTA)) if milli else 0


def container_resources(pod: Pod, container: JsonObject, memory_capacity: int) -> Resources:
    """What the runtime is told of a container; limits of the pod as a whole hold for those without their own."""
    cpu_limit = _amount(container, "limits", "cpu") or _amount(pod.spec, "limits", "cpu")
    memory_limit = _amount(container, "limits", "memory") or _amount(pod.spec, "limits", "memory")
    stated = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    request = cpu_limit if stated is None else Quantity.parse(stated)
    return Resources(
        cpu_period=PERIOD,
        cpu_quota=quota(cpu_limit.milli()),
        cpu_shares=shares(request.milli()),
        memory_limit=min(memory_limit.value(), MOST_MEMORY),
        oom_score_adj=oom_score(pod, container, memory_capacity),
    )


def oom_score(pod: Pod, container: JsonObject, memory_capacity: int) -> int:
    """The more of its request a container may still use, the later it is killed."""
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


def _spare_per_container(pod: Pod) -> int:
    """A request of the pod as a whole, beyond those of its containers, is shared among them."""
    whole = _memory(pod.spec)
    lasting = [*pod.containers, *(each for each in pod.init_containers if is_sidecar(each))]
    if not whole or not lasting:
        return 0
    return max(0, whole - sum(_memory(each) for each in lasting)) // len(lasting)


def _memory(holder: JsonObject) -> int:
    return _amount(holder, "requests", "memory").value()


def _amount(holder: JsonObject, side: str, name: str) -> Quantity:
    return Quantity.parse(((holder.get("resources") or {}).get(side) or {}).get(name) or "0")
