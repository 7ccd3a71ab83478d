"""How much of each resource a pod asks for, and the quality of service that follows from it.

This is the only place where the amounts of containers become those of their pod. Quotas, the scheduler, admission on
the node, cgroups, eviction and plans all ask here. The amounts are exact; who wants whole numbers rounds the sum.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList


def is_sidecar(container: JsonObject) -> bool:
    """An init container that keeps running."""
    return container.get("restartPolicy") == "Always"


def aggregate(spec: JsonObject, side: str) -> ResourceList:
    """The effective sum of `requests` or `limits` over all containers.

    Sidecars run beside everything that starts after them; a plain init container runs alone with the sidecars before
    it. So the pod needs the larger of "all containers and all sidecars" and the hungriest init step.
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
    """What scheduling and quotas charge: pod-level amounts where given, else the containers' sum, plus overhead."""
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
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
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
        # a request that is missing has been set to the limit by defaulting, so comparing the two is enough
        guaranteed = guaranteed and len(limits) == 2 and requests == limits
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(resources: JsonObject, side: str) -> ResourceList:
    listed = resources.get(side) or {}
    found = ((name, quantity(listed[name])) for name in ("cpu", "memory") if name in listed)
    return {name: amount for name, amount in found if amount > ZERO}
