"""The columns of the core group's kinds other than pods."""

from __future__ import annotations

from typing import Any

from tarmac.api.checks import mapping, objects
from tarmac.api.conditions import condition_of
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, UNKNOWN, UNSET, cell, field, join_labels, since
from tarmac.api.kubernetes.core.pods import podcolumns as pods
from tarmac.api.resource import Age, Column
from tarmac.api.schema import JsonObject

_ROLE_PREFIX = "node-role.kubernetes.io/"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS = "volume.beta.kubernetes.io/storage-class"
_SHOWN = 3
_NEW_NAMES = {
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "involvedObject": "regarding",
    "lastTimestamp": "deprecatedLastTimestamp",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
}


def _node_status(node: JsonObject) -> str:
    ready = condition_of(node, "Ready").get("status")
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    if mapping(node, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: JsonObject) -> str:
    labels = mapping(node, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(type: str, name: str) -> Column:
    def value(node: JsonObject) -> str:
        addresses = objects(node, "status", "addresses")
        return next((entry.get("address", "") for entry in addresses if entry.get("type") == type), NONE)

    return cell(name, value, ".status.addresses", wide=True)


def _cluster_ip(service: JsonObject) -> str:
    spec = mapping(service, "spec")
    return (spec.get("clusterIPs") or [spec.get("clusterIP") or NONE])[0]


def _external_ip(service: JsonObject) -> str:
    spec = mapping(service, "spec")
    external = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = objects(service, "status", "loadBalancer", "ingress")
            balanced = sorted({entry.get("ip") or entry.get("hostname") or "" for entry in ingress} - {""})
            return ",".join([*balanced, *external]) or "<pending>"
        case "ExternalName":
            return spec.get("externalName", "")
        case _:
            return UNKNOWN


def _service_ports(service: JsonObject) -> str:
    return ",".join(map(_service_port, objects(service, "spec", "ports"))) or NONE


def _service_port(port: JsonObject) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol', '')}"


def _phase(obj: JsonObject) -> str:
    """Return the phase of a volume or claim, or Terminating."""
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return mapping(obj, "status").get("phase", "")


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class(obj: JsonObject) -> str:
    annotated = mapping(obj, "metadata", "annotations").get(_CLASS)
    return annotated if annotated is not None else mapping(obj, "spec").get("storageClassName") or ""


def _attributes_class(obj: JsonObject) -> str:
    return mapping(obj, "spec").get("volumeAttributesClassName") or UNSET


def _claim(volume: JsonObject) -> str:
    reference = mapping(volume, "spec").get("claimRef")
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference is not None else ""


def _claim_capacity(claim: JsonObject) -> str:
    if not mapping(claim, "spec").get("volumeName"):
        return ""
    return str(mapping(claim, "status", "capacity").get("storage", "0"))


def _claim_modes(claim: JsonObject) -> str:
    return _modes(mapping(claim, "status").get("accessModes")) if mapping(claim, "spec").get("volumeName") else ""


def _of(event: JsonObject, field: str) -> Any:
    """Return a field of an event in either form: core/v1 or events.k8s.io/v1, which has other names for many fields."""
    return event.get(field) or event.get(_NEW_NAMES[field])


def _first_seen(event: JsonObject) -> Age | str:
    return since(_of(event, "firstTimestamp") or event.get("eventTime"))


def _last_seen(event: JsonObject) -> Age | str:
    if series := event.get("series"):
        return since(series.get("lastObservedTime"))
    last = _of(event, "lastTimestamp")
    return since(last) if last else _first_seen(event)


def _event_count(event: JsonObject) -> int:
    series = event.get("series")
    return series.get("count", 0) if series else _of(event, "count") or 1


def _event_object(event: JsonObject) -> str:
    target = _of(event, "involvedObject") or {}
    kind = target.get("kind", "").lower()
    return f"{kind}/{target['name']}" if target.get("name") else kind


def _event_source(event: JsonObject) -> str:
    source = _of(event, "source") or {}
    component = source.get("component") or _of(event, "reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _quota(quota: JsonObject, limits: bool) -> str:
    hard, used = mapping(quota, "status", "hard"), mapping(quota, "status", "used")
    names = (name for name in sorted(hard) if name.startswith("limits.") is limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


def _endpoints(endpoints: JsonObject) -> str:
    listed: list[str] = []
    for subset in objects(endpoints, "subsets"):
        addresses = [entry.get("ip", "") for entry in subset.get("addresses") or ()]
        for port in subset.get("ports") or [None]:
            listed += [address if port is None else _host_port(address, port.get("port", 0)) for address in addresses]
    return NONE if not endpoints.get("subsets") else shorten(listed)


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def shorten(listed: list[str]) -> str:
    """Return the first three entries, and the number of the rest."""
    text = ",".join(listed[:_SHOWN])
    return f"{text} + {len(listed) - _SHOWN} more..." if len(listed) > _SHOWN else text


_VOLUME_MODE = field("VolumeMode", ".spec.volumeMode", default=UNSET, wide=True)

COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": pods.COLUMNS,
    "Service": (
        NAME,
        field("Type", ".spec.type"),
        cell("Cluster-IP", _cluster_ip, ".spec.clusterIP"),
        cell("External-IP", _external_ip, ".spec.externalIPs"),
        cell("Port(s)", _service_ports, ".spec.ports"),
        AGE,
        cell("Selector", lambda obj: join_labels(mapping(obj, "spec").get("selector")), ".spec.selector", wide=True),
    ),
    "Endpoints": (NAME, cell("Endpoints", _endpoints, ".subsets"), AGE),
    "Node": (
        NAME,
        cell("Status", _node_status, "The status of the node"),
        cell("Roles", _node_roles, "The roles of the node"),
        AGE,
        field("Version", ".status.nodeInfo.kubeletVersion"),
        _node_address("InternalIP", "Internal-IP"),
        _node_address("ExternalIP", "External-IP"),
        field("OS-Image", ".status.nodeInfo.osImage", default=UNKNOWN, wide=True),
        field("Kernel-Version", ".status.nodeInfo.kernelVersion", default=UNKNOWN, wide=True),
        field("Container-Runtime", ".status.nodeInfo.containerRuntimeVersion", default=UNKNOWN, wide=True),
    ),
    "Event": (
        cell("Last Seen", _last_seen, ".lastTimestamp"),
        field("Type", ".type"),
        field("Reason", ".reason"),
        cell("Object", _event_object, ".involvedObject"),
        cell(
            "Subobject",
            lambda event: (_of(event, "involvedObject") or {}).get("fieldPath", ""),
            ".involvedObject.fieldPath",
            wide=True,
        ),
        cell("Source", _event_source, ".source", wide=True),
        cell("Message", lambda event: (_of(event, "message") or "").strip(), ".message"),
        cell("First Seen", _first_seen, ".firstTimestamp", wide=True),
        cell("Count", _event_count, ".count", wide=True),
        Column("Name", NAME.value, format="name", priority=1, description=NAME.description),
    ),
    "Namespace": (
        NAME,
        cell("Status", lambda obj: mapping(obj, "status").get("phase", ""), "The status of the namespace"),
        AGE,
    ),
    "Secret": (
        NAME,
        field("Type", ".type"),
        cell("Data", lambda obj: len(obj.get("data") or ()), ".data"),
        AGE,
    ),
    "ConfigMap": (
        NAME,
        cell("Data", lambda obj: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), ".data"),
        AGE,
    ),
    "ServiceAccount": (NAME, AGE),
    "PersistentVolume": (
        NAME,
        cell("Capacity", lambda obj: str(mapping(obj, "spec", "capacity").get("storage", "0")), ".spec.capacity"),
        cell("Access Modes", lambda obj: _modes(mapping(obj, "spec").get("accessModes")), ".spec.accessModes"),
        field("Reclaim Policy", ".spec.persistentVolumeReclaimPolicy"),
        cell("Status", _phase, ".status.phase"),
        cell("Claim", _claim, ".spec.claimRef"),
        cell("StorageClass", _class, "StorageClass of the pv"),
        cell("VolumeAttributesClass", _attributes_class, "VolumeAttributesClass of the pv"),
        field("Reason", ".status.reason"),
        AGE,
        _VOLUME_MODE,
    ),
    "PersistentVolumeClaim": (
        NAME,
        cell("Status", _phase, ".status.phase"),
        field("Volume", ".spec.volumeName"),
        cell("Capacity", _claim_capacity, ".status.capacity"),
        cell("Access Modes", _claim_modes, ".status.accessModes"),
        cell("StorageClass", _class, "StorageClass of the pvc"),
        cell("VolumeAttributesClass", _attributes_class, "VolumeAttributesClass of the pvc"),
        AGE,
        _VOLUME_MODE,
    ),
    "ResourceQuota": (
        NAME,
        cell(
            "Request",
            lambda obj: _quota(obj, limits=False),
            "Request represents a minimum amount of cpu/memory that a container may consume.",
        ),
        cell(
            "Limit",
            lambda obj: _quota(obj, limits=True),
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on "
            "the node.",
        ),
        AGE,
    ),
}
