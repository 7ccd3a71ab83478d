"""The source of objects for explanations and plans, such as a server's store or fetched lists.

Resources have the names of the store, `core/pods` or `compute.datumapis.com/workloads`; keys are `namespace/name`, or
`name` for cluster-scoped objects. Objects are decoded on access: a snapshot may hold a hundred thousand of them, and an
explanation decodes a few completely and the rest only in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.machineimage import LocalMachineImage, MachineImage
from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.declare import decoder
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.networking.network import Network

T = TypeVar("T")
Encoded = bytes | msgspec.Raw


class Snapshot(Protocol):
    """The cluster's objects at one moment, `now`."""

    @property
    def now(self) -> float:
        """The time of the snapshot in Unix seconds."""
        ...

    def holds(self, resource: str) -> bool:
        """Return True if a resource was read. An object missing from a resource that was not read may still exist."""
        ...

    def get(self, resource: str, key: str) -> Encoded | None:
        """Return one object, or None."""
        ...

    def list(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        """Return the objects of a namespace; of all namespaces if it is empty."""
        ...


@dataclass(frozen=True, slots=True)
class Objects:
    """A snapshot in memory: by resource, then by key."""

    now: float
    objects: Mapping[str, Mapping[str, Encoded]] = field(default_factory=dict[str, Mapping[str, Encoded]])

    def holds(self, resource: str) -> bool:
        """Return True if the resource was read, even if it has no objects."""
        return resource in self.objects

    def get(self, resource: str, key: str) -> Encoded | None:
        """Return one object, or None."""
        return self.objects.get(resource, {}).get(key)

    def list(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        """Return the objects of a namespace; of all namespaces if it is empty."""
        prefix = f"{namespace}/" if namespace else ""
        return (raw for key, raw in self.objects.get(resource, {}).items() if key.startswith(prefix))


@dataclass(frozen=True, slots=True)
class ResourceSource(Generic[T]):
    """A resource and its decoder."""

    resource: str
    decode: Callable[[Encoded], T]

    def get(self, snapshot: Snapshot, key: str) -> T | None:
        """Return one decoded object, or None."""
        raw = snapshot.get(self.resource, key)
        return None if raw is None else self.decode(raw)

    def all(self, snapshot: Snapshot, namespace: str = "") -> Iterable[T]:
        """Return all decoded objects of a namespace; of all namespaces if it is empty."""
        return map(self.decode, snapshot.list(self.resource, namespace))


_plain = msgspec.json.Decoder(dict[str, Any]).decode

WORKLOADS = ResourceSource(f"{COMPUTE}/workloads", decoder(Workload))
DEPLOYMENTS = ResourceSource(f"{COMPUTE}/workloaddeployments", decoder(WorkloadDeployment))
INSTANCES = ResourceSource(f"{COMPUTE}/instances", decoder(Instance))
INSTANCE_TYPES = ResourceSource(f"{COMPUTE}/instancetypes", decoder(InstanceType))
LOCAL_MACHINE_IMAGES = ResourceSource(f"{COMPUTE}/localmachineimages", decoder(LocalMachineImage))
MACHINE_IMAGES = ResourceSource(f"{COMPUTE}/machineimages", decoder(MachineImage))
LOCATIONS = ResourceSource(f"{NETWORKING}/locations", decoder(Location))
NETWORKS = ResourceSource(f"{NETWORKING}/networks", decoder(Network))
NODES = ResourceSource("core/nodes", _plain)
PODS = ResourceSource("core/pods", _plain)
QUOTAS = ResourceSource("core/resourcequotas", _plain)
CLAIMS = ResourceSource("core/persistentvolumeclaims", _plain)
VOLUMES = ResourceSource("core/persistentvolumes", _plain)
BUDGETS = ResourceSource("policy/poddisruptionbudgets", _plain)
PRIORITY_CLASSES = ResourceSource("scheduling.k8s.io/priorityclasses", _plain)
RUNTIME_CLASSES = ResourceSource("node.k8s.io/runtimeclasses", _plain)
CONFIG_MAPS = ResourceSource("core/configmaps", _plain)
SECRETS = ResourceSource("core/secrets", _plain)

REPLICA_SETS = ResourceSource("apps/replicasets", _plain)
POD_CONTROLLERS: dict[str, ResourceSource[dict[str, Any]]] = {
    "DaemonSet": ResourceSource("apps/daemonsets", _plain),
    "Deployment": ResourceSource("apps/deployments", _plain),
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": ResourceSource("apps/statefulsets", _plain),
    "CronJob": ResourceSource("batch/cronjobs", _plain),
    "Job": ResourceSource("batch/jobs", _plain),
    "ReplicationController": ResourceSource("core/replicationcontrollers", _plain),
}
"""Kubernetes' own kinds whose controllers create Pods, by kind."""

LEASES = ResourceSource("coordination.k8s.io/leases", _plain)

EVERYTHING = (
    WORKLOADS,
    DEPLOYMENTS,
    INSTANCES,
    INSTANCE_TYPES,
    LOCAL_MACHINE_IMAGES,
    MACHINE_IMAGES,
    LOCATIONS,
    NETWORKS,
    NODES,
    PODS,
    QUOTAS,
    CLAIMS,
    VOLUMES,
    BUDGETS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
)
"""The resources to fetch if the explanation runs in the client."""

AT_THE_SERVER = (*EVERYTHING, CONFIG_MAPS, SECRETS)
"""The resources that a server reads: also those that a client does not fetch just to check existence."""
