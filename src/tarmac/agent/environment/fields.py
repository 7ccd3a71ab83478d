"""The downward API: fields of the pod and resources of its containers, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.agent.pods.pod import Pod
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity


class FieldUnknown(ValueError):
    """There is no such field."""


def pod_field(pod: Pod, path: str, pod_addresses: Sequence[str], host_addresses: Sequence[str]) -> str:
    """The value of a `fieldRef`. Raises FieldUnknown."""
    simple = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.spec.get("nodeName", ""),
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", ""),
        "status.podIP": pod_addresses[0] if pod_addresses else "",
        "status.podIPs": ",".join(pod_addresses),
        "status.hostIP": host_addresses[0] if host_addresses else "",
        "status.hostIPs": ",".join(host_addresses),
    }
    if path in simple:
        return simple[path]
    if path == "metadata.labels":
        return _lines(pod.labels)
    if path == "metadata.annotations":
        return _lines(pod.annotations)
    field, bracket, subscript = path.partition("['")
    if bracket and subscript.endswith("']") and field in ("metadata.labels", "metadata.annotations"):
        return (pod.labels if field == "metadata.labels" else pod.annotations).get(subscript[:-2], "")
    raise FieldUnknown(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    return "\n".join(f'{key}="{_quoted(values[key])}"' for key in sorted(values))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_field(pod: Pod, container: JsonObject, reference: JsonObject, allocatable: Mapping[str, str]) -> str:
    """The value of a `resourceFieldRef`, in units of its divisor, rounded up. Raises FieldUnknown."""
    if name := reference.get("containerName"):
        container = pod.container(name) or _missing(name)
    side, _, resource = reference["resource"].partition(".")
    divisor = Quantity.parse(reference.get("divisor") or "1") or Quantity.of(1)
    amount = _amount(container, side, resource, allocatable)
    if resource == "cpu":
        return str(-(-amount.milli() // divisor.milli()))
    return str(-(-amount.value() // max(1, divisor.value())))


def _missing(name: str) -> JsonObject:
    raise FieldUnknown(f"container {name} not found")


def _amount(container: JsonObject, side: str, resource: str, allocatable: Mapping[str, str]) -> Quantity:
    """What the container has; a limit it does not have is what the node can give."""
    if side not in ("limits", "requests") or not resource:
        raise FieldUnknown(f"unsupported container resource : {side}.{resource}")
    stated = ((container.get("resources") or {}).get(side) or {}).get(resource)
    if stated is None and side == "limits" and resource in ("cpu", "memory", "ephemeral-storage"):
        stated = allocatable.get(resource)
    return Quantity.parse(stated if stated is not None else "0")
