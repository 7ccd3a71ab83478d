"""How much a cgroup may use, and how that follows from a pod. Pure.

A pod's cgroup gets the sum of its containers, as kubelets compute it: the CPU quota and the memory limit only when
every container has one. For sandboxes with their own kernel this is the only limit there is, since all their processes
are in one cgroup; the sum is what holds for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tarmac.api.kubernetes.core.pods.podresources import pod_amounts, qos_class
from tarmac.api.schema import JsonObject
from tarmac.decide.scheduling.amounts import CPU, MEMORY

LEAST_SHARES: Final = 2
MOST_SHARES: Final = 262144
LEAST_QUOTA: Final = 1000  # microseconds; the kernel takes no less
MOST_QUOTA: Final = (1 << 44) - 1  # nor more
MOST_MEMORY: Final = (1 << 63) - 1  # bytes, of the runtime's 64 bits
NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """What to set; None leaves a limit as it is, -1 takes it away. Times in microseconds."""

    shares: int | None = None
    quota: int | None = None
    period: int = 100_000
    memory: int | None = None
    pids: int | None = None


UNLIMITED: Final = Limits(quota=NONE, memory=NONE, pids=NONE)
"""What a new group has."""


def unlike(wanted: Limits, known: Limits) -> Limits:
    """What is left to set of the wanted, where the known is set already."""
    return Limits(
        shares=wanted.shares if wanted.shares != known.shares else None,
        quota=wanted.quota if (wanted.quota, wanted.period) != (known.quota, known.period) else None,
        period=wanted.period,
        memory=wanted.memory if wanted.memory != known.memory else None,
        pids=wanted.pids if wanted.pids != known.pids else None,
    )


def shares(milli: int) -> int:
    """Processors as weight."""
    return min(MOST_SHARES, max(LEAST_SHARES, milli * 1024 // 1000))


def quota(milli: int, period: int) -> int:
    """Processors as time in each period; none when zero."""
    return max(LEAST_QUOTA, min(milli * period // 1000, MOST_QUOTA)) if milli else NONE


def pod_limits(pod: JsonObject, *, period: int, enforce_cpu: bool, pids: int) -> Limits:
    """The limits of a pod's own cgroup."""
    spec = pod["spec"]
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    cpu, memory = limits.get(CPU), limits.get(MEMORY)
    return Limits(
        shares=shares(requests[CPU].milli() if CPU in requests and qos_class(spec) != "BestEffort" else 0),
        quota=quota(cpu.milli(), period) if enforce_cpu and cpu and _all_declare(spec, CPU) else NONE,
        period=period,
        memory=min(memory.value(), MOST_MEMORY) if memory and _all_declare(spec, MEMORY) else NONE,
        pids=pids if pids > 0 else NONE,
    )


def burstable_request(pod: JsonObject) -> int:
    """What the pod adds to the weight of all burstable ones, in thousandths of a processor."""
    spec = pod["spec"]
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
