"""Types shared by several of Tarmac's kinds. Names, fields and meanings are those of Kubernetes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct, Time
from tarmac.base.quantity import Quantity
from tarmac.base.selectors import MAX_REQUIREMENTS

ResourceList = dict[str, Quantity]
"""Amounts by resource name: cpu, memory, storage, or a device such as `datumcloud.com/nvidia-tesla-a100`."""

Labels = dict[str, str]
Protocol = Literal["TCP", "UDP", "SCTP"]
IPFamily = Literal["IPv4", "IPv6"]

COMPUTE_GROUP = "compute.datumapis.com"
COMPUTE_VERSION = f"{COMPUTE_GROUP}/v1alpha"
LABEL_WORKLOAD_NAME = f"{COMPUTE_GROUP}/workload-name"
"""On WorkloadDeployments, Instances and Pods. Here because networking, below compute, reads it on Pods."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which `kubectl apply` stores the last applied file."""


class OwnerReference(Struct):
    """An object that this object belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct):
    """The metadata fields that controllers read."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: Labels = {}
    annotations: Labels = {}
    finalizers: list[str] = []
    owner_references: list[OwnerReference] = []


class Kind(Struct):
    """Base of every kind: its metadata. A kind adds `spec` and `status`."""

    metadata: ObjectMeta


class Condition(Struct):
    """One observation about an object, with the reason for it."""

    type: Annotated[str, Field("The observed aspect, such as Available or Ready.", max_length=316)]
    status: Annotated[Literal["True", "False", "Unknown"], Field("Whether it holds.")]
    reason: Annotated[str, Field("Why, as one CamelCase word for programs.", max_length=1024)] = ""
    message: Annotated[str, Field("Why, as a sentence for people.", max_length=32768)] = ""
    last_transition_time: Annotated[Time | None, Field("When the status last changed.")] = None
    observed_generation: Annotated[
        int, Field("The metadata.generation that was looked at.", minimum=0, format="int64")
    ] = 0


Conditions = Annotated[list[Condition], Field("Observations about the object, by type.", key="type")]

ObservedGeneration = Annotated[
    int, Field("The newest metadata.generation that this status speaks about.", minimum=0, format="int64")
]


def counted() -> int:
    """Return a field that defaults to zero and is always written: clients can wait for a count of zero.

    `omit_defaults` leaves out plain defaults; one from a factory is written.
    """
    return msgspec.field(default_factory=int)


class LabelSelectorRequirement(Struct):
    """A condition on one label."""

    key: Annotated[str, Field("The label's key.")]
    operator: Annotated[Literal["In", "NotIn", "Exists", "DoesNotExist"], Field("How the label relates to the values.")]
    values: Annotated[list[str], Field("The values; for In and NotIn at least one, otherwise none.")] = []


class LabelSelector(Struct):
    """Objects chosen by their labels. All conditions must hold; an empty selector chooses everything."""

    match_labels: Annotated[
        Labels, Field("Labels that must be there with exactly these values.", max_items=MAX_REQUIREMENTS)
    ] = {}
    match_expressions: Annotated[
        list[LabelSelectorRequirement], Field("Further conditions on labels.", max_items=MAX_REQUIREMENTS)
    ] = []


class LocalObjectReference(Struct):
    """Another object in the same namespace."""

    name: Annotated[str, Field("Name of the object.", min_length=1)]


class LocationReference(Struct):
    """A Location."""

    name: Annotated[str, Field("Name of the Location.", min_length=1)]
    namespace: Annotated[str, Field("Ignored: Locations have no namespace. Accepted for older manifests.")] = ""


class Summary(Struct):
    """The object in a few words, written by the controllers so that every API server can print the same columns."""

    ready: Annotated[str, Field("Ready of desired, such as 3/5.")] = ""
    cities: Annotated[str, Field("Cities that have ready instances, of those wanted, such as 2/3.")] = ""
    status: Annotated[str, Field("One word: Available, Progressing, Degraded, Pending, Paused, Deleting.")] = ""
    reason: Annotated[str, Field("The most useful reason when not all is well.")] = ""


class ConfigMapKeySelector(Struct):
    """One key of a ConfigMap or Secret in the same namespace."""

    name: Annotated[str, Field("Name of the ConfigMap or Secret.")]
    key: Annotated[str, Field("Which key of it.")]
    optional: Annotated[bool, Field("Go on without it when it does not exist.")] = False


class ObjectFieldSelector(Struct):
    """A field of the instance itself."""

    field_path: Annotated[str, Field("Path of the field, such as metadata.name.")]
    api_version: Annotated[str, Field("Version that the path is written for.")] = ""


class ResourceFieldSelector(Struct):
    """An amount of resources of a container."""

    resource: Annotated[str, Field("Which amount, such as limits.cpu.")]
    container_name: Annotated[str, Field("Which container; by default the one that asks.")] = ""
    divisor: Annotated[Quantity | None, Field("Unit to express the amount in.")] = None


class EnvVarSource(Struct):
    """The source of an environment variable's value. Exactly one of the fields is set."""

    field_ref: Annotated[ObjectFieldSelector | None, Field("A field of the instance.")] = None
    resource_field_ref: Annotated[ResourceFieldSelector | None, Field("An amount of resources.")] = None
    config_map_key_ref: Annotated[ConfigMapKeySelector | None, Field("A key of a ConfigMap.")] = None
    secret_key_ref: Annotated[ConfigMapKeySelector | None, Field("A key of a Secret.")] = None


class EnvVar(Struct):
    """One environment variable."""

    name: Annotated[str, Field("Name of the variable.")]
    value: Annotated[str, Field("Its value. $(OTHER) stands for the value of a variable named before.")] = ""
    value_from: Annotated[EnvVarSource | None, Field("Where the value comes from, instead of `value`.")] = None


class SourceReference(Struct):
    """A ConfigMap or Secret in the same namespace."""

    name: Annotated[str, Field("Name of the object.")]
    optional: Annotated[bool, Field("Go on without it when it does not exist.")] = False


class EnvFromSource(Struct):
    """Every key of a ConfigMap or Secret as an environment variable. Exactly one of the references is set."""

    prefix: Annotated[str, Field("Put before each key; a C identifier.")] = ""
    config_map_ref: Annotated[SourceReference | None, Field("The ConfigMap.")] = None
    secret_ref: Annotated[SourceReference | None, Field("The Secret.")] = None


class KeyToPath(Struct):
    """One key of a ConfigMap or Secret as a file."""

    key: Annotated[str, Field("Which key.")]
    path: Annotated[str, Field("Relative path of the file; must not contain '..'.")]
    mode: Annotated[int | None, Field("Permission bits of the file, 0 to 0777.")] = None
