"""The WorkloadDeployments a Workload should have, and how far one that exists differs from that.

The Workload owns the template, scale settings, rollout and pause of its children; `spec.replicas` belongs to whoever
scales and is never written here. Which template a child should have now is for the waves to say (`decide/rollout`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tarmac.api.compute.instance import InstanceTemplate
from tarmac.api.compute.names import (
    API_VERSION,
    FINALIZER,
    LABEL_CITY_CODE,
    LABEL_DEPLOYMENT_NAME,
    LABEL_MOVED_FROM,
    LABEL_PLACEMENT_NAME,
    LABEL_WORKLOAD_NAME,
    LABEL_WORKLOAD_UID,
    deployment_name,
)
from tarmac.api.compute.scaling import ScaleSettings
from tarmac.api.compute.workload import (
    Placement,
    Workload,
    WorkloadDeployment,
    WorkloadDeploymentSpec,
    WorkloadReference,
)
from tarmac.api.declare import Struct, encode
from tarmac.api.schema import Json
from tarmac.api.shared import ObjectMeta, OwnerReference

# What the Workload owns of a deployment's spec, and its name in JSON.
_OWNED = {"template": "template", "scale_settings": "scaleSettings", "rollout": "rollout", "paused": "paused"}


@dataclass(frozen=True, slots=True)
class Child:
    """One deployment that should exist. `moved_from` is the lost city it stands in for, if it does."""

    placement: str
    city: str
    settings: ScaleSettings
    moved_from: str = ""

    def name(self, workload: str) -> str:
        """Its name, when the Workload is called so."""
        return deployment_name(workload, self.placement, self.city, self.moved_from)


def own_children(placement: Placement, cities: Iterable[str]) -> list[Child]:
    """The deployments of the placement's own cities."""
    return [Child(placement.name, city, placement.scale_settings) for city in cities]


def stand_ins(placement: Placement, lost: str, moved: Mapping[str, int]) -> list[Child]:
    """The deployments that run a lost city's instances elsewhere: as many as have moved, not scaled any further."""
    policy = placement.scale_settings.instance_management_policy
    return [
        Child(placement.name, city, ScaleSettings(min_replicas=count, instance_management_policy=policy), lost)
        for city, count in moved.items()
        if count
    ]


def labels_of(workload: Workload, child: Child) -> dict[str, str]:
    """By which the deployment, its Instances and their Pods are found."""
    labels = {
        LABEL_WORKLOAD_UID: workload.metadata.uid,
        LABEL_WORKLOAD_NAME: workload.metadata.name,
        LABEL_PLACEMENT_NAME: child.placement,
        LABEL_DEPLOYMENT_NAME: child.name(workload.metadata.name),
        LABEL_CITY_CODE: child.city,
    }
    return {**labels, LABEL_MOVED_FROM: child.moved_from} if child.moved_from else labels


def document(workload: Workload, child: Child, template: InstanceTemplate) -> WorkloadDeployment:
    """The deployment, ready to be created."""
    own, spec = workload.metadata, workload.spec
    return WorkloadDeployment(
        metadata=ObjectMeta(
            name=child.name(own.name),
            namespace=own.namespace,
            labels=labels_of(workload, child),
            finalizers=[FINALIZER],
            owner_references=[OwnerReference(API_VERSION, "Workload", own.name, own.uid, True, True)],
        ),
        spec=WorkloadDeploymentSpec(
            workload_ref=WorkloadReference(own.name, own.uid),
            placement_name=child.placement,
            city_code=child.city,
            template=template,
            scale_settings=child.settings,
            rollout=spec.rollout,
            paused=spec.paused,
        ),
    )


def changes(
    workload: Workload, child: Child, present: WorkloadDeployment, template: InstanceTemplate | None
) -> list[Json]:
    """The JSON patch that brings a deployment in line; empty when it is. Whatever else is in it stays.

    Without a template, so does the one it has.
    """
    wanted = document(workload, child, template or present.spec.template).spec
    edits: list[Json] = []
    for field, name in _OWNED.items():
        value = getattr(wanted, field)
        if value == getattr(present.spec, field):
            continue
        path = f"/spec/{name}"
        encoded = encode(value) if isinstance(value, Struct) else value
        edits.append({"op": "add", "path": path, "value": encoded} if value else {"op": "remove", "path": path})
    labels = {**present.metadata.labels, **labels_of(workload, child)}
    if labels != present.metadata.labels:
        edits.append({"op": "add", "path": "/metadata/labels", "value": labels})
    return [{"op": "test", "path": "/metadata/uid", "value": present.metadata.uid}, *edits] if edits else []
