"""The resource amounts of a pod, and its QoS class (Guaranteed, Burstable, BestEffort).

Only this module computes a pod's amounts from those of its containers. Quotas, the scheduler, admission on the node,
cgroups, eviction and plans all call it. The amounts are exact; callers that need integers round the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList


def is_sidecar(container: JsonObject) -> bool:
    """Return True for an init container that keeps running."""
    return container.get("restartPolicy") == "Always"


def aggregate(spec: JsonObject, side: str) -> ResourceList:
    """Return the effective sum of `requests` or `limits` over all containers.

    Sidecars run beside all containers that start after them; a plain init container runs alone with the sidecars before
    it. So the pod needs the larger of "all containers and all sidecars" and the largest init step.
    """
    total: ResourceList = {}
    for container in spec.get("containers") or ():
        add(total, _amounts(container, side))
    sidecars: ResourceList = {}
    peak: ResourceList = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, side)
        if is_sidecar(container):
            add(total, amounts)
            add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            step = dict(sidecars)
            add(step, amounts)
            _raise(peak, step)
    _raise(total, peak)
    return total


def pod_amounts(spec: JsonObject, side: str) -> ResourceList:
    """Return amounts for scheduling and quotas: pod-level amounts if set, else the containers' sum; and overhead."""
    total = aggregate(spec, side)
    for name, text in ((spec.get("resources") or {}).get(side) or {}).items():
        total[name] = quantity(text)
    for name, text in (spec.get("overhead") or {}).items():
        if side == "requests" or name in total:
            total[name] = total.get(name, ZERO) + quantity(text)
    return total


def _amounts(container: JsonObject, side: str) -> ResourceList:
    listed = (container.get("resources") or {}).get(side) or {}
    return {name: quantity(text) for name, text in listed.items()}


def add(total: ResourceList, amounts: ResourceList) -> None:
    """Add amounts in place."""
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: ResourceList, amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        if name not in total or total[name] < amount:
            total[name] = amount


def qos_class(spec: JsonObject) -> str:
    """Return Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    pod_level = spec.get("resources") or {}
    if pod_level.get("requests") or pod_level.get("limits"):
        return _classify([pod_level])
    return _classify([container.get("resources") or {} for container in _all(spec)])


def _all(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("containers") or ()
    yield from spec.get("initContainers") or ()


def _classify(requirements: list[JsonObject]) -> str:
    guaranteed, anything = True, False
    for resources in requirements:
        requests, limits = _compute(resources, "requests"), _compute(resources, "limits")
        anything = anything or bool(requests) or bool(limits)
        # defaulting has set a missing request to the limit, so comparing the two is enough
        guaranteed = guaranteed and len(limits) == 2 and requests == limits
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: JsonObject, side: str) -> ResourceList:
    listed = resources.get(side) or {}
    found = ((name, quantity(listed[name])) for name in ("cpu", "memory") if name in listed)
    return {name: amount for name, amount in found if amount > ZERO}
