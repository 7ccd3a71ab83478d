"""The objects created for a WorkloadDeployment: Instances from its template, one NetworkBinding per interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tarmac.api.compute.instance import Instance, InstanceController, InstanceSpec, SchedulingGate, TemplateMeta
from tarmac.api.compute.names import (
    API_VERSION,
    INSTANCE_FINALIZER,
    LABEL_DEPLOYMENT_UID,
    LABEL_INSTANCE_INDEX,
    binding_name,
    identity_of,
    instance_name,
)
from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.networking.network import NetworkBinding, NetworkBindingSpec, NetworkRef
from tarmac.api.shared import LocationReference, ObjectMeta, OwnerReference
from tarmac.decide.powerstate import is_stopped


def instance_document(
    deployment: WorkloadDeployment,
    location: LocationReference,
    ordinal: int,
    template_hash: str,
    gates: Iterable[str],
    annotations: Mapping[str, str],
) -> Instance:
    """Return the Instance at an ordinal."""
    template, own = deployment.spec.template, deployment.metadata
    meta = template.metadata
    content = {field: getattr(template.spec, field) for field in template.spec.__struct_fields__}
    return Instance(
        metadata=ObjectMeta(
            name=instance_name(own.name, ordinal),
            namespace=own.namespace,
            labels=instance_labels(deployment, ordinal),
            annotations={**_annotations(meta), **annotations},
            finalizers=[INSTANCE_FINALIZER],
            owner_references=[_owned_by(deployment)],
        ),
        spec=InstanceSpec(
            **content,
            location=location,
            controller=InstanceController(
                template_hash, [SchedulingGate(gate) for gate in gates], running=not is_stopped(template.spec)
            ),
        ),
    )


def instance_labels(deployment: WorkloadDeployment, ordinal: int) -> dict[str, str]:
    """Return the labels that select an Instance and its Pod. The platform's labels override those of the template."""
    meta, own = deployment.spec.template.metadata, deployment.metadata
    numbered = {LABEL_DEPLOYMENT_UID: own.uid, LABEL_INSTANCE_INDEX: str(ordinal)}
    return {**(meta.labels if meta else {}), **identity_of(own.labels), **numbered}


def _annotations(meta: TemplateMeta | None) -> dict[str, str]:
    """Return the template's annotations, without interface addresses: only the platform assigns those."""
    return {name: value for name, value in meta.annotations.items() if name != ANNOTATION_INTERFACES} if meta else {}


def binding_documents(deployment: WorkloadDeployment, location: LocationReference) -> list[NetworkBinding]:
    """Return a NetworkBinding at the deployment's Location for each interface, in order."""
    own = deployment.metadata
    return [
        NetworkBinding(
            metadata=ObjectMeta(
                name=binding_name(own.name, index),
                namespace=own.namespace,
                labels={**identity_of(own.labels), LABEL_DEPLOYMENT_UID: own.uid},
                owner_references=[_owned_by(deployment)],
            ),
            spec=NetworkBindingSpec(NetworkRef(nic.network.name, nic.network.namespace), location),
        )
        for index, nic in enumerate(deployment.spec.template.spec.network_interfaces)
    ]


def _owned_by(deployment: WorkloadDeployment) -> OwnerReference:
    own = deployment.metadata
    return OwnerReference(API_VERSION, "WorkloadDeployment", own.name, own.uid, True, True)
