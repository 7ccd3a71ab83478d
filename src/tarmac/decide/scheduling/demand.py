"""The scheduling demand of a pod, compiled once for all pods of a template.

Thousands of pods differ only in name. `Demands` reads the parts of a pod that matter to scheduling, and gives pods with
equal parts the same `Demand` object; results for it (nodes that can never take it, why nothing fits) are computed once.
A pod's own labels are not part of it, since they often carry an ordinal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any, Final

import msgspec

from tarmac.api.compute.names import GROUP
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.decide.amounts import CPU, MEMORY, PODS, Amounts, amounts_of, whole_amounts
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE, exclusive_peak
from tarmac.decide.scheduling.classdemand import ClassDemand, class_demand, class_key
from tarmac.decide.scheduling.nodeterms import NodeChoice, any_of, choice_of
from tarmac.decide.scheduling.podterms import PodTerm, Spread, pod_term, spread_of

# A pod without requests still has a weight when nodes are scored, as in Kubernetes.
_ASSUMED_CPU: Final = 100
_ASSUMED_MEMORY: Final = 200 * 1024 * 1024
_CACHED: Final = 4096
_DEPLOYMENT_LABEL: Final = f"{GROUP}/workload-deployment-name"

Port = tuple[str, str, int]
"""Address, protocol, number."""


@dataclass(frozen=True, slots=True)
class PodToleration:
    """A toleration of a pod. Empty key, value or effect: any."""

    key: str
    exists: bool
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that is tied to nodes: the claim's name and the nodes that can reach it."""

    claim: str
    nodes: NodeChoice


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The demand of a pod. Compared by identity: equal pods share one."""

    requests: tuple[tuple[str, int], ...]  # charged to the node, including one of `pods` and exclusive CPUs
    cpu: int
    memory: int
    exclusive: int  # exclusive CPUs
    classes: ClassDemand | None
    location: str
    nodes: NodeChoice | None
    preferred_nodes: tuple[tuple[int, NodeChoice], ...]
    tolerations: tuple[PodToleration, ...]
    ports: tuple[Port, ...]
    spread: tuple[Spread, ...]
    near: tuple[PodTerm, ...]
    apart: tuple[PodTerm, ...]
    preferred_pods: tuple[PodTerm, ...]
    images: tuple[str, ...]
    handler: str
    disks: tuple[Disk, ...]
    overhead: tuple[tuple[str, int], ...] = ()  # the runtime's part of `requests`

    @property
    def compared_cpu(self) -> int:
        """CPU for scorers, with a default."""
        return self.cpu or _ASSUMED_CPU

    @property
    def compared_memory(self) -> int:
        """Memory for scorers, with a default."""
        return self.memory or _ASSUMED_MEMORY


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """The scheduler's view of a pod. Pods of one `group` are preferably spread over nodes.

    A `mirror` of a static pod occupies its node, but affinity and spread of other pods do not count it, nor its own.
    """

    uid: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    group: str
    demand: Demand
    priority: int = 0
    mirror: bool = False


class Demands:
    """Parses pods and caches the demands of their templates. With `classes=False` requests for classes are ignored."""

    def __init__(self, *, classes: bool = True) -> None:
        self._classes = classes
        self._known: dict[bytes, Demand] = {}
        self._encode = msgspec.json.Encoder().encode

    def pod(self, obj: JsonObject, handler: str = "", disks: Sequence[Disk] = ()) -> Pod:
        """Parse a Pod. The caller looks up the handler of its RuntimeClass and the nodes of its disks."""
        metadata: JsonObject = obj["metadata"]
        spec: JsonObject = obj["spec"]
        namespace = metadata["namespace"]
        places = [disk.nodes.text for disk in disks]
        key = self._encode(
            (namespace, handler, places, _observed_fields(spec), class_key(obj) if self._classes else None)
        )
        demand = self._known.get(key)
        if demand is None or demand.disks != tuple(disks):
            classes = class_demand(obj, handler) if self._classes else None
            demand = demand_of(spec, namespace, handler, disks, classes)
            if len(self._known) >= _CACHED:
                self._known.clear()
            self._known[key] = demand
        # Thousands of pods have the same labels: each string is stored once.
        labels = {intern(name): intern(value) for name, value in (metadata.get("labels") or {}).items()}
        uid, name = intern(metadata["uid"]), intern(metadata["name"])
        mirror, priority = is_mirror(metadata.get("annotations")), spec.get("priority") or 0
        group = "" if mirror else intern(_group(metadata, labels))
        return Pod(uid, intern(namespace), name, labels, group, demand, priority, mirror)


def demand_of(
    spec: JsonObject,
    namespace: str,
    handler: str = "",
    disks: Sequence[Disk] = (),
    classes: ClassDemand | None = None,
) -> Demand:
    """Compute the demand of a pod with this spec."""
    requests, exclusive = requests_of(spec), exclusive_peak(spec)
    affinity: Mapping[str, Any] = spec.get("affinity") or {}
    pods, not_pods = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    labels = dict(spec.get("nodeSelector") or {})
    location = labels.pop(LABEL_LOCATION, "")
    on_nodes: Mapping[str, Any] = affinity.get("nodeAffinity") or {}
    required = on_nodes.get("requiredDuringSchedulingIgnoredDuringExecution")
    return Demand(
        requests=(*requests.items(), (PODS, 1), *([(CPU_EXCLUSIVE, exclusive)] if exclusive else ())),
        cpu=requests.get(CPU, 0),
        memory=requests.get(MEMORY, 0),
        exclusive=exclusive,
        classes=classes,
        location=location,
        nodes=choice_of(labels, required["nodeSelectorTerms"] if required else None),
        preferred_nodes=tuple((item["weight"], any_of([item["preference"]])) for item in _preferred(on_nodes)),
        tolerations=tuple(_toleration(item) for item in spec.get("tolerations") or ()),
        ports=_host_ports(spec),
        spread=tuple(spread_of(item, namespace) for item in spec.get("topologySpreadConstraints") or ()),
        near=tuple(pod_term(term, namespace) for term in _required(pods)),
        apart=tuple(pod_term(term, namespace) for term in _required(not_pods)),
        preferred_pods=(*_weighted(pods, namespace, 1), *_weighted(not_pods, namespace, -1)),
        images=tuple(container["image"] for container in spec["containers"] if container.get("image")),
        handler=handler,
        disks=tuple(disks),
        overhead=tuple(amounts_of(spec.get("overhead")).items()),
    )


def requests_of(spec: JsonObject) -> Amounts:
    """Return the amounts charged to the node: the pod's requests, rounded after summing."""
    return whole_amounts(pod_amounts(spec, "requests"))


def _observed_fields(spec: JsonObject) -> tuple[Any, ...]:
    """Return the parts of a pod's spec that determine its demand."""
    get = spec.get
    containers = [(item.get("resources"), item.get("ports"), item.get("image")) for item in spec["containers"]]
    first = [
        (item.get("resources"), item.get("restartPolicy"), item.get("ports")) for item in get("initContainers") or ()
    ]
    relations = (get("nodeSelector"), get("affinity"), get("tolerations"), get("topologySpreadConstraints"))
    return containers, first, relations, get("overhead"), get("resources"), get("hostNetwork")


def _group(metadata: JsonObject, labels: Mapping[str, str]) -> str:
    """Return the key of pods with the same purpose: their deployment, else their owner."""
    deployment = labels.get(_DEPLOYMENT_LABEL)
    if deployment is not None:
        return intern(f"{metadata['namespace']}/{deployment}")
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return owner["uid"]
    return ""


def _toleration(item: Mapping[str, Any]) -> PodToleration:
    exists = item.get("operator") == "Exists"
    return PodToleration(item.get("key") or "", exists, item.get("value") or "", item.get("effect") or "")


def _host_ports(spec: JsonObject) -> tuple[Port, ...]:
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    return tuple(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for container in containers
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _required(relation: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return relation.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _preferred(relation: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return relation.get("preferredDuringSchedulingIgnoredDuringExecution") or ()


def _weighted(relation: Mapping[str, Any], namespace: str, sign: int) -> Iterable[PodTerm]:
    return [pod_term(item["podAffinityTerm"], namespace, sign * item["weight"]) for item in _preferred(relation)]
