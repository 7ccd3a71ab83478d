"""How many processors of its own each container of a pod gets, where the node gives any.

A container has processors to itself when its pod is Guaranteed and it asks for a whole number of them: plain
containers, init containers and sidecars alike, never ephemeral ones, and none in a pod that asks for cpu or memory as
a whole. Init containers run before the others and leave theirs to them.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.kubernetes.core.pods.podresources import is_sidecar, qos_class
from tarmac.api.kubernetes.resourcenames import quantity
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import NANO

_CPU, _MEMORY = "cpu", "memory"  # not those of scheduling, which imports this

CPU_EXCLUSIVE: Final = "cpu exclusive"
"""In a node's capacity: how many processors it can give to containers for themselves."""


def exclusive_cpus(spec: JsonObject) -> dict[str, int]:
    """The containers of a pod that get processors to themselves, in the order in which they are given out."""
    found: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if count := _whole_cpus(container):
            found[container["name"]] = count
    # Asked last because it is the costly question: most pods ask for no whole processor.
    return found if found and qos_class(spec) == "Guaranteed" and not _as_a_whole(spec) else {}


def exclusive_peak(spec: JsonObject) -> int:
    """How many processors of their own the containers of a pod have together at most."""
    counts = exclusive_cpus(spec)
    if not counts:
        return 0
    sidecars = peak = 0
    for container in spec.get("initContainers") or ():
        count = counts.get(container["name"], 0)
        peak = max(peak, sidecars + count)
        sidecars += count if is_sidecar(container) else 0
    return max(peak, sidecars + sum(counts.get(each["name"], 0) for each in spec.get("containers") or ()))


def _whole_cpus(container: JsonObject) -> int:
    stated = ((container.get("resources") or {}).get("requests") or {}).get(_CPU)
    if stated is None:
        return 0
    count, rest = divmod(quantity(stated).nanos, NANO)
    return 0 if rest else count


def _as_a_whole(spec: JsonObject) -> bool:
    pod_level = spec.get("resources") or {}
    return any(name in (pod_level.get(side) or {}) for side in ("requests", "limits") for name in (_CPU, _MEMORY))
