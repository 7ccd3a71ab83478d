"""A small world of objects: places, nodes, and the platform's objects of a Workload."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.compute.instance import Instance
from tarmac.api.compute.instancetype import built_in
from tarmac.api.compute.machineimage import built_in_images
from tarmac.api.compute.names import GATE_QUOTA
from tarmac.api.compute.workload import Workload, WorkloadDeployment
from tarmac.api.declare import decode, encode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference
from tarmac.base.clock import rfc3339
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.deployments import document, own_children
from tarmac.decide.derived.instances import instance_document
from tarmac.decide.derived.pods import pod_of
from tarmac.decide.rollout import CityGoal
from tarmac.decide.snapshot.snapshot import (
    CLAIMS,
    DEPLOYMENTS,
    INSTANCE_TYPES,
    INSTANCES,
    LOCATIONS,
    MACHINE_IMAGES,
    NETWORKS,
    NODES,
    PODS,
    QUOTAS,
    VOLUMES,
    WORKLOADS,
    Encoded,
    Objects,
)

NOW = 1_800_000_000.0
CITY, LOCATION = "topology.datum.net/city-code", "topology.datum.net/location"


class Scene:
    """Objects in construction."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Encoded]] = {}
        self.put(
            NETWORKS.resource,
            {"metadata": {"name": "default", "namespace": "default"}, "spec": {"ipam": {"mode": "Auto"}}},
        )
        for each in built_in():
            self.put(INSTANCE_TYPES.resource, each)
        for each in built_in_images():
            self.put(MACHINE_IMAGES.resource, each)

    @property
    def world(self) -> Objects:
        """Return the current objects."""
        return Objects(NOW, self._objects)

    def put(self, resource: str, obj: JsonObject) -> None:
        """Add or replace an object."""
        metadata = obj["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        self._objects.setdefault(resource, {})[key] = msgspec.json.encode(obj, enc_hook=str)

    def remove(self, resource: str, key: str) -> None:
        """Remove an object."""
        del self._objects[resource][key]

    def place(self, city: str, nodes: int = 2, cpu: str = "4", *, ready: bool = True, name: str = "") -> None:
        """Add a Location and its nodes."""
        name = name or city.lower()
        condition = condition_of("Ready", ready, "NodesReady" if ready else "NoReadyNodes")
        spec = {"locationClassName": "self-managed", "topology": {CITY: city}, "provider": {"nodes": {}}}
        status = {"conditions": [condition], "nodes": nodes}
        self.put(LOCATIONS.resource, {"metadata": {"name": name}, "spec": spec, "status": status})
        for index in range(nodes):
            self.node(f"{name}-{index}", name, cpu)

    def node(self, name: str, location: str, cpu: str = "4", **spec: Any) -> None:
        """Add a node with plenty of memory."""
        labels = {"kubernetes.io/hostname": name, LOCATION: location}
        status = {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}
        self.put(NODES.resource, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status})

    def pod(self, name: str, cpu: str = "1", node: str = "", **spec: Any) -> None:
        """Add a pod without an Instance."""
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
        metadata = {"name": name, "namespace": "default", "uid": name}
        placed = {"nodeName": node} if node else {}
        self.put(PODS.resource, {"metadata": metadata, "spec": {"containers": [container], **placed, **spec}})

    def quota(self, **hard: str) -> None:
        """Add a ResourceQuota with these limits."""
        metadata = {"name": "limits", "namespace": "default"}
        self.put(QUOTAS.resource, {"metadata": metadata, "spec": {"hard": hard}})

    def claim(self, name: str, node: str) -> None:
        """Add a claim with its disk on a node."""
        self.put(CLAIMS.resource, {"metadata": {"name": name, "namespace": "default"}, "spec": {"volumeName": name}})
        terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
        spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
        self.put(VOLUMES.resource, {"metadata": {"name": name}, "spec": spec})

    def deploy(self, obj: JsonObject, located: bool = True) -> dict[str, WorkloadDeployment]:
        """Store a Workload and a deployment for each of its cities; return these by city."""
        obj = {**obj, "metadata": {**obj["metadata"], "uid": f"uid-{obj['metadata']['name']}"}}
        self.put(WORKLOADS.resource, obj)
        workload, found = decode(Workload, obj), dict[str, WorkloadDeployment]()
        for placement in workload.spec.placements:
            for child in own_children(placement, placement.city_codes):
                deployment = document(workload, child, workload.spec.template)
                deployment.metadata.uid = f"uid-{deployment.metadata.name}"
                body = encode(deployment)
                if located:
                    body["status"] = {"location": {"name": child.city.lower()}}
                self.put(DEPLOYMENTS.resource, body)
                found[child.city] = decode(WorkloadDeployment, body)
        return found

    def say(self, deployment: WorkloadDeployment, condition: JsonObject) -> None:
        """Set the condition of a deployment."""
        body = encode(deployment)
        body["status"]["conditions"] = [condition]
        self.put(DEPLOYMENTS.resource, body)

    def instance(
        self,
        deployment: WorkloadDeployment,
        ordinal: int,
        node: str = "",
        reason: str = "Running",
        message: str = "",
        *,
        ready: bool = True,
        gates: tuple[str, ...] = (),
    ) -> Instance:
        """Store an Instance, and unless it is gated its Pod."""
        location = LocationReference(deployment.spec.city_code.lower())
        hashed = CityGoal.of(deployment.spec).template_hash
        made = instance_document(deployment, location, ordinal, hashed, gates, {})
        body = encode(made)
        conditions = [condition_of("Ready", ready, reason, message)]
        if GATE_QUOTA in gates:
            conditions.append(condition_of("QuotaGranted", False, reason, message))
        body["status"] = {"conditions": conditions, "nodeName": node}
        self.put(INSTANCES.resource, body)
        if not gates:
            self._pod_of(made, node, ready)
        return made

    def _pod_of(self, instance: Instance, node: str, ready: bool) -> None:
        types = {each["metadata"]["name"]: each for each in built_in()}
        amounts = instance_amounts(
            instance.spec.runtime, lambda name: INSTANCE_TYPES.decode(msgspec.json.encode(types[name]))
        )
        assert amounts is not None
        body = pod_of(instance, amounts)
        body["metadata"]["uid"] = f"pod-{instance.metadata.name}"
        if node:
            body["spec"]["nodeName"] = node
            state = {"running": {}} if ready else {"waiting": {"reason": "ContainerCreating"}}
            body["status"] = {
                "phase": "Running" if ready else "Pending",
                "conditions": [condition_of("Ready", ready, "")],
                "containerStatuses": [{"name": "main", "state": state}],
            }
        self.put(PODS.resource, body)


def condition_of(type: str, holds: bool, reason: str, message: str = "") -> JsonObject:
    """Return a condition that has held for an hour."""
    since = rfc3339(NOW - 3600)
    status = "True" if holds else "False"
    return {"type": type, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def workload(
    *cities: str, replicas: int = 2, cpu: str = "1", image: str = "example.com/app:1", name: str = "web", **spec: Any
) -> JsonObject:
    """Return a Workload with one placement; further keywords are fields of the placement, or else of the spec."""
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": cpu, "memory": "1Gi"}},
        "sandbox": {"containers": [{"name": "main", "image": image}]},
    }
    template = {
        "spec": {"runtime": runtime, "networkInterfaces": [{"network": {"name": spec.pop("network", "default")}}]}
    }
    settings = {"minReplicas": replicas, "instanceManagementPolicy": spec.pop("policy", "Parallel")}
    own = {field: spec.pop(field) for field in ("paused", "rollout") if field in spec}
    chosen = {"cityCodes": list(cities)} if cities else {}
    placement = {"name": "all", **chosen, "scaleSettings": settings, **spec}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"template": template, "placements": [placement], **own},
    }


def machines(*cities: str) -> JsonObject:
    """Return a Workload of one machine in each city."""
    obj = workload(*cities, replicas=1)
    spec = obj["spec"]["template"]["spec"]
    del spec["runtime"]["sandbox"]
    spec["runtime"]["virtualMachine"] = {"volumeAttachments": [{"name": "boot"}]}
    disk = {"template": {"spec": {"populator": {"image": {"name": "tarmac/tiny"}}}}}
    spec["volumes"] = [{"name": "boot", "disk": disk}]
    return obj
