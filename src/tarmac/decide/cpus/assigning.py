"""Assigns exclusive CPUs to the containers of one pod.

Containers are served in order. The CPUs of an ended init container are reusable by later containers; those of a sidecar
are not. The choice is the kubelet's, which treats free and reusable CPUs alike, unless the pod would then hold more
CPUs than its peak: in that case reusable CPUs are taken first. So a pod holds exactly its peak, which the scheduler
counts, and a pod that the scheduler found room for is never rejected.
"""

from __future__ import annotations

from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.packing import NotEnough, take
from tarmac.decide.cpus.topology import Topology
from tarmac.decide.exclusivecpus import exclusive_cpus

__all__ = ["NotEnough", "assign", "refused"]


def refused(error: Exception) -> tuple[str, str]:
    """Return the kubelet's reason and message for a pod that cannot get its exclusive CPUs."""
    return "UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected"


def assign(topology: Topology, free: CPUSet, spec: JsonObject) -> dict[str, CPUSet]:
    """Return the exclusive CPUs of each container by name, taken from `free`. Raises NotEnough."""
    passing = {each["name"] for each in spec.get("initContainers") or () if not is_sidecar(each)}
    given: dict[str, CPUSet] = {}
    again = CPUSet()  # held by the pod, but only by init containers that will have ended
    for name, count in exclusive_cpus(spec).items():
        given[name] = cpus = _choose(topology, free, again, count)
        free = free - cpus
        again = again | cpus if name in passing else again - cpus
    return given


def _choose(topology: Topology, free: CPUSet, again: CPUSet, count: int) -> CPUSet:
    chosen = take(topology, free | again, count)
    more = max(0, count - len(again))
    if len(chosen - again) <= more:
        return chosen
    return take(topology, again, count) if not more else again | take(topology, free, more)
