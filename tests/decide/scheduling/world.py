"""Objects of nodes and pods for scheduling tests."""

from __future__ import annotations

from typing import Any

from tarmac.decide.scheduling import Cluster, Demands, Pod, Scheduler, node_of
from tarmac.decide.verdict import Verdict

HOSTNAME = "kubernetes.io/hostname"
LOCATION = "topology.datum.net/location"

Json = dict[str, Any]


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "10",
    labels: dict[str, str] | None = None,
    taints: list[Json] | None = None,
    unschedulable: bool = False,
    handlers: list[str] | None = None,
    annotations: dict[str, str] | None = None,
    devices: dict[str, str] | None = None,
    capacity: dict[str, str] | None = None,
    **more: str,
) -> Json:
    """Return a Node object. Further keywords are extended resources."""
    status: Json = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(devices or {}), **more}}
    if handlers is not None:
        status["runtimeHandlers"] = [{"name": handler} for handler in handlers]
    if capacity is not None:
        status["capacity"] = {**status["allocatable"], **capacity}
    spec: Json = {"taints": taints or [], "unschedulable": unschedulable}
    metadata: Json = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": spec, "status": status}


def pod(name: str, requests: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    """Return a Pod object with one container. Further keywords are fields of its spec."""
    ports = spec.pop("ports", [])
    container = {
        "name": "c",
        "image": "docker.io/library/app:1",
        "resources": {"requests": requests or {}},
        "ports": ports,
    }
    metadata = {"name": name, "namespace": spec.pop("namespace", "default"), "uid": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def required(kind: str, *terms: Json) -> Json:
    """Return an affinity with required terms."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    return {kind: {field: {"nodeSelectorTerms": list(terms)} if kind == "nodeAffinity" else list(terms)}}


def spread(key: str, skew: int = 1, hard: bool = True, **labels: str) -> list[Json]:
    """Return one topology spread constraint."""
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selector = {"matchLabels": labels}
    return [{"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when, "labelSelector": selector}]


class World:
    """A cluster and its scheduler."""

    def __init__(self, *nodes: Json) -> None:
        self.cluster = Cluster()
        self.demands = Demands()
        self.scheduler = Scheduler(self.cluster)
        self.turn = 0
        for obj in nodes:
            self.cluster.set_node(node_of(obj))

    def read(self, obj: Json, **found: Any) -> Pod:
        """Return the scheduler's view of a Pod object."""
        return self.demands.pod(obj, **found)

    def choose(self, obj: Json, **found: Any) -> Verdict[str]:
        """Choose a node without a change of state."""
        self.turn += 1
        return self.scheduler.choose(self.read(obj, **found), self.turn)

    def run(self, obj: Json, on: str | None = None, **found: Any) -> str | None:
        """Choose a node, unless one is given, and put the pod there."""
        chosen = on or self.choose(obj, **found).value
        if chosen is not None:
            self.cluster.add_pod(self.read(obj, **found), chosen)
        return chosen
