"""The processors of every container of one pod that has some to itself.

Containers are served in order. Those of an init container that has ended are free for the ones after it; those of a
sidecar are not. The choice is kubelet's, which looks at free ones and at those to be used again alike, unless that
would make the pod hold more than it needs at one time: then what can be used again is used first. So a pod holds
exactly its peak, which is what the scheduler counts, and a pod that the scheduler found room for is never refused.
"""

from __future__ import annotations

from tarmac.api.kubernetes.core.pods.podresources import is_sidecar
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.processors.exclusive import exclusive_cpus
from tarmac.decide.processors.packing import NotEnough, take
from tarmac.decide.processors.topology import Topology

__all__ = ["NotEnough", "assign", "refused"]


def refused(error: Exception) -> tuple[str, str]:
    """Reason and message of a pod whose containers cannot have processors to themselves, in kubelet's words."""
    return "UnexpectedAdmissionError", f"Allocate failed due to {error}, which is unexpected"


def assign(topology: Topology, free: CPUSet, spec: JsonObject) -> dict[str, CPUSet]:
    """What each container gets out of the free processors, by name. Raises NotEnough."""
    passing = {each["name"] for each in spec.get("initContainers") or () if not is_sidecar(each)}
    given: dict[str, CPUSet] = {}
    again = CPUSet()  # held by the pod, and by none of its containers that last
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
