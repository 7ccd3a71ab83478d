"""Where explanations and plans read from: any source of encoded objects, such as a server's store or fetched lists.

Resources are named as stores name them, `core/pods` or `compute.datumapis.com/workloads`; keys are `namespace/name`, or
`name` for what has no namespace. Objects stay encoded until somebody looks: a snapshot may hold a hundred thousand of
them, and an explanation reads a few whole and the rest only in part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import InstanceType
from tarmac.api.compute.machineimage import MachineImage
from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.declare import decoder
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.networking.network import Network

T = TypeVar("T")
Encoded = bytes | msgspec.Raw


class Snapshot(Protocol):
    """Everything there is, at one moment. `now` is that moment."""

    @property
    def now(self) -> float:
        """Unix seconds."""
        ...

    def holds(self, resource: str) -> bool:
        """Whether objects of a resource are in it: what is missing from one that was not looked at may well exist."""
        ...

    def get(self, resource: str, key: str) -> Encoded | None:
        """One object."""
        ...

    def list(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        """The objects of a namespace, or of all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Objects:
    """A world that is held in memory: by resource, then by key."""

    now: float
    objects: Mapping[str, Mapping[str, Encoded]] = field(default_factory=dict[str, Mapping[str, Encoded]])

    def holds(self, resource: str) -> bool:
        """Whether it was looked at, with or without finding any."""
        return resource in self.objects

    def get(self, resource: str, key: str) -> Encoded | None:
        """One object."""
        return self.objects.get(resource, {}).get(key)

    def list(self, resource: str, namespace: str = "") -> Iterable[Encoded]:
        """The objects of a namespace, or of all of them."""
        prefix = f"{namespace}/" if namespace else ""
        return (raw for key, raw in self.objects.get(resource, {}).items() if key.startswith(prefix))


@dataclass(frozen=True, slots=True)
class ResourceSource(Generic[T]):
    """One resource, and how its objects are read."""

    resource: str
    decode: Callable[[Encoded], T]

    def get(self, snapshot: Snapshot, key: str) -> T | None:
        """One object, read."""
        raw = snapshot.get(self.resource, key)
        return None if raw is None else self.decode(raw)

    def all(self, snapshot: Snapshot, namespace: str = "") -> Iterable[T]:
        """All of them, read."""
        return map(self.decode, snapshot.list(self.resource, namespace))


_plain = msgspec.json.Decoder(dict[str, Any]).decode

WORKLOADS = ResourceSource(f"{COMPUTE}/workloads", decoder(Workload))
DEPLOYMENTS = ResourceSource(f"{COMPUTE}/workloaddeployments", decoder(WorkloadDeployment))
INSTANCES = ResourceSource(f"{COMPUTE}/instances", decoder(Instance))
INSTANCE_TYPES = ResourceSource(f"{COMPUTE}/instancetypes", decoder(InstanceType))
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

EVERYTHING = (
    WORKLOADS,
    DEPLOYMENTS,
    INSTANCES,
    INSTANCE_TYPES,
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
"""What must be fetched where no server explains."""

AT_THE_SERVER = (*EVERYTHING, CONFIG_MAPS, SECRETS)
"""What a server looks at: also what nobody would fetch only to see whether it exists."""
