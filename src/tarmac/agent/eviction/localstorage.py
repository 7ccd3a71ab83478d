"""Local storage limits per container, per pod and per emptyDir. Pure.

The node's file system has no quotas, so usage is measured and limits are enforced by eviction.
"""

from __future__ import annotations

from tarmac.agent.stats.pods import PodMetrics
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.reservations import STORAGE


def overdrawn(pod: JsonObject, metrics: PodMetrics) -> str | None:
    """Return kubelet's message for an exceeded limit, or None."""
    return _empty_dirs(pod, metrics) or _whole(pod, metrics) or _containers(pod, metrics)


def is_limited(pod: JsonObject) -> bool:
    """Return True if the pod has any such limit."""
    spec = pod["spec"]
    sized = any((volume.get("emptyDir") or {}).get("sizeLimit") for volume in spec.get("volumes") or ())
    return sized or STORAGE in pod_amounts(spec, "limits")


def _empty_dirs(pod: JsonObject, metrics: PodMetrics) -> str | None:
    for volume in pod["spec"].get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        usage = metrics.volumes.get(volume["name"])
        if limit and usage is not None and (most := Quantity.parse(limit)) and usage.used > most.value():
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{most}". '
    return None


def _whole(pod: JsonObject, metrics: PodMetrics) -> str | None:
    limit = pod_amounts(pod["spec"], "limits").get(STORAGE)
    if limit is not None and metrics.ephemeral > limit.value():
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    return None


def _containers(pod: JsonObject, metrics: PodMetrics) -> str | None:
    limits = {
        each["name"]: ((each.get("resources") or {}).get("limits") or {}).get(STORAGE)
        for each in pod["spec"]["containers"]
    }
    for container in metrics.containers:
        limit = limits.get(container.name)
        used = container.measured.usage.disk + container.logs
        if limit and used > (most := Quantity.parse(limit)).value():
            return f'Container {container.name} exceeded its local ephemeral storage limit "{most}". '
    return None
