"""The WorkloadDeployments a Workload should have, and the differences of an existing one.

The Workload owns the template, scale settings, rollout and pause of its children. `spec.replicas` belongs to the
scaling client (the autoscaler or a person) and is never written here. The waves decide which template a child has now
(`decide/rollout`); starting and stopping machines takes effect in every city at once, without waves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
from tarmac.decide.powerstate import is_stopped, with_running


@dataclass(frozen=True, slots=True)
class Child:
    """One deployment that should exist. `moved_from` is the lost city that it replaces, if it does."""

    placement: str
    city: str
    settings: ScaleSettings
    moved_from: str = ""

    def name(self, workload: str) -> str:
        """Return the deployment's name for a Workload of this name."""
        return deployment_name(workload, self.placement, self.city, self.moved_from)


def own_children(placement: Placement, cities: Iterable[str]) -> list[Child]:
    """Return the deployments of the placement's own cities."""
    return [Child(placement.name, city, placement.scale_settings) for city in cities]


def stand_ins(placement: Placement, lost: str, moved: Mapping[str, int]) -> list[Child]:
    """Return the deployments that run a lost city's moved instances elsewhere, with a fixed number of replicas."""
    policy = placement.scale_settings.instance_management_policy
    return [
        Child(placement.name, city, ScaleSettings(min_replicas=count, instance_management_policy=policy), lost)
        for city, count in moved.items()
        if count
    ]


def labels_of(workload: Workload, child: Child) -> dict[str, str]:
    """Return the labels that select the deployment, its Instances and their Pods."""
    labels = {
        LABEL_WORKLOAD_UID: workload.metadata.uid,
        LABEL_WORKLOAD_NAME: workload.metadata.name,
        LABEL_PLACEMENT_NAME: child.placement,
        LABEL_DEPLOYMENT_NAME: child.name(workload.metadata.name),
        LABEL_CITY_CODE: child.city,
    }
    return {**labels, LABEL_MOVED_FROM: child.moved_from} if child.moved_from else labels


def document(workload: Workload, child: Child, template: InstanceTemplate) -> WorkloadDeployment:
    """Return the deployment, ready to be created."""
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
            template=with_running(template, running=not is_stopped(workload.spec.template.spec)),
            scale_settings=child.settings,
            rollout=spec.rollout,
            paused=spec.paused,
        ),
    )


def changes(
    workload: Workload, child: Child, present: WorkloadDeployment, template: InstanceTemplate | None
) -> list[Json]:
    """Return the JSON patch that updates a deployment; empty when it is up to date.

    Fields that the Workload does not own stay unchanged; without a template, so does the template.
    """
    known, spec = present.spec, workload.spec
    wanted: tuple[tuple[str, Any, Any], ...] = (
        ("template", template or known.template, known.template),
        ("scaleSettings", child.settings, known.scale_settings),
        ("rollout", spec.rollout, known.rollout),
        ("paused", spec.paused, known.paused),
    )
    edits: list[Json] = []
    for name, value, has in wanted:
        if value is has or value == has:
            continue
        path = f"/spec/{name}"
        encoded = encode(value) if isinstance(value, Struct) else value
        edits.append({"op": "add", "path": path, "value": encoded} if value else {"op": "remove", "path": path})
    labels = {**present.metadata.labels, **labels_of(workload, child)}
    if labels != present.metadata.labels:
        edits.append({"op": "add", "path": "/metadata/labels", "value": labels})
    # The test on the uid makes the patch fail if the deployment was deleted and recreated in between.
    return [{"op": "test", "path": "/metadata/uid", "value": present.metadata.uid}, *edits] if edits else []
