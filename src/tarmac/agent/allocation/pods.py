"""The limits of a pod's cgroup. Pure.

A pod's cgroup gets the sum of its containers, as kubelets compute it: CPU quota and memory limit only if every
container has one. For a sandbox with its own kernel this is the only limit in effect, since all its processes are in
one cgroup.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.model.limits import MAX_MEMORY, NONE, CgroupLimits, quota
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts, qos_class
from tarmac.api.schema import JsonObject
from tarmac.decide.allocatable.weights import shares
from tarmac.decide.scheduling.amounts import CPU, MEMORY


def pod_limits(spec: JsonObject, settings: AllocationSettings) -> CgroupLimits:
    """Return the limits of a pod's cgroup."""
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    cpu, memory = limits.get(CPU), limits.get(MEMORY)
    return CgroupLimits(
        shares=shares(requests[CPU].milli() if CPU in requests and qos_class(spec) != "BestEffort" else 0),
        quota=quota(cpu.milli(), settings.period) if settings.enforce_cpu and cpu and _all_declare(spec, CPU) else NONE,
        period=settings.period,
        memory=min(memory.value(), MAX_MEMORY) if memory and _all_declare(spec, MEMORY) else NONE,
        pids=settings.pids if settings.pids > 0 else NONE,
    )


def burstable_request(spec: JsonObject) -> int:
    """Return the pod's part of the weight of all burstable pods, in millicores."""
    if qos_class(spec) != "Burstable":
        return 0
    requests = pod_amounts(spec, "requests")
    return requests[CPU].milli() if CPU in requests else 0


def _all_declare(spec: JsonObject, resource: str) -> bool:
    if ((spec.get("resources") or {}).get("limits") or {}).get(resource):
        return True
    return all(((each.get("resources") or {}).get("limits") or {}).get(resource) for each in _containers(spec))


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec["containers"]
    yield from spec.get("initContainers") or ()
