"""Counts the exclusive CPUs of a pod's containers, for nodes that support them.

A container gets exclusive CPUs if its pod is Guaranteed and it requests a whole number of CPUs: regular containers,
init containers and sidecars alike, never ephemeral ones, and none in a pod with pod-level requests or limits of cpu or
memory. Init containers run before the regular ones, which reuse their CPUs.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.kubernetes.core.pods.podresources import is_sidecar, qos_class
from tarmac.api.kubernetes.resourcenames import quantity
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import NANO

_CPU, _MEMORY = "cpu", "memory"  # not imported from amounts, which imports this module

CPU_EXCLUSIVE: Final = "cpu exclusive"
"""Key in a node's capacity: the number of CPUs that can be exclusive."""


def exclusive_cpus(spec: JsonObject) -> dict[str, int]:
    """Return the number of exclusive CPUs of each container that gets some, in order of assignment."""
    found: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if count := _whole_cpus(container):
            found[container["name"]] = count
    # Checked last because it is expensive: most pods request no whole CPU.
    return found if found and qos_class(spec) == "Guaranteed" and not _as_a_whole(spec) else {}


def exclusive_peak(spec: JsonObject) -> int:
    """Return the largest number of exclusive CPUs that the containers of a pod have at the same time."""
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
