"""API objects of a simulated Location: the Location, its nodes, their leases."""

from __future__ import annotations

from tarmac.api.compute.names import GPUS_SANDBOXABLE
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.kubernetes.core.nodedevices import ANNOTATION_DEVICES
from tarmac.api.kubernetes.runtimeclasses import SIMULATED_RUNTIME
from tarmac.api.networking.cities import location_of, node_labels
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339, rfc3339_micro
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.settings import HeartbeatSettings, SimLocation

LEASE_NAMESPACE = "kube-node-lease"
VERSION = "v1.35.0-sim"
SIMULATED_DRIVER = "simulated"
_ON_THE_SEGMENT = 100  # maximum number of nodes: 192.168.122.2 to .101

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "the simulated node is ready"),
)


def location(place: SimLocation) -> JsonObject:
    """Return the Location object."""
    return location_of(place.name, place.city, "simulated")


def labels_of(name: str, place: SimLocation) -> dict[str, str]:
    """Return the labels of a node."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **node_labels(place.name, place.city),
    }


def facts(number: int, *, gateway: bool) -> str:
    """Return a node's facts annotation for external services. A node labelled as gateway has an outside interface."""
    addresses = [f"192.168.122.{2 + number}/24", f"fd00:122::{2 + number:x}/64"]
    outside = [OutsideInterface("outside0", addresses)] if gateway and number < _ON_THE_SEGMENT else []
    return write_facts(NodeFacts(outside, "kernel", state_sync=True, public_key=f"simulated-{number}"))


def node(name: str, place: SimLocation, model: NodeModel, address: str, now: float) -> JsonObject:
    """Return the Node object of a healthy node."""
    devices = model.devices.text()
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels_of(name, place),
            "annotations": {ANNOTATION_DEVICES: devices} if devices else {},
        },
        "spec": {},
        "status": {
            **model.status(),
            "conditions": [*conditions(now), *([_gpus(model, now)] if model.gpus else [])],
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "nodeInfo": _node_info(name),
            "runtimeHandlers": [{"name": handler} for handler in model.handlers],
        },
    }


def conditions(now: float) -> list[JsonObject]:
    """Return the conditions of a healthy node."""
    return [_condition(*each, now) for each in _HEALTHY]


def _gpus(model: NodeModel, now: float) -> JsonObject:
    if model.sandboxes_gpus:
        known = f"sandboxes can use NVIDIA's driver {SIMULATED_DRIVER}"
        return _condition(GPUS_SANDBOXABLE, "True", "DriverKnown", known, now)
    unknown = f"gVisor does not know NVIDIA's driver {SIMULATED_DRIVER}, so GPUs are for the RuntimeClass runc only"
    return _condition(GPUS_SANDBOXABLE, "False", "DriverUnknown", unknown, now)


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> JsonObject:
    when = rfc3339(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": when,
        "lastTransitionTime": when,
    }


def _node_info(name: str) -> JsonObject:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "simulated",
        "osImage": "simulated",
        "containerRuntimeVersion": f"{SIMULATED_RUNTIME}1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def lease(name: str, heartbeat: HeartbeatSettings, now: float) -> JsonObject:
    """Return a node's Lease at registration."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": int(heartbeat.duration),
            "renewTime": rfc3339_micro(now),
        },
    }


def renewal(now: float) -> JsonObject:
    """Return the patch that renews a Lease."""
    return {"spec": {"renewTime": rfc3339_micro(now)}}
