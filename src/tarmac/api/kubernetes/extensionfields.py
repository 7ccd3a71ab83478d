"""The table of Tarmac's own fields in Kubernetes' kinds.

`make setup` adds them to the schemas and OpenAPI documents that it generates from Kubernetes' types, so that decoding,
patches, apply, strict validation and `kubectl explain` treat them as any other field. Types are in Go's notation; one
with a star distinguishes "zero" from "not given", and every field that is not required is omitted when empty. Protobuf
has no numbers for these fields. An API server of Kubernetes drops them.
"""

from __future__ import annotations

from typing import NamedTuple

_CORE = "io.k8s.api.core.v1"
_BY_NAME = "At most one entry for each name."
_TYPE = "Name of the type, such as `rdt` or `blockio`."


class OwnField(NamedTuple):
    """One field. `key` makes a list a map by that field of its items; other lists are replaced as a whole."""

    name: str
    go_type: str
    description: str
    required: bool = False
    key: str = ""


class OwnType(NamedTuple):
    """A type that Kubernetes does not have."""

    description: str
    fields: tuple[OwnField, ...]


_NAME = OwnField("name", "string", _TYPE, required=True)
_CLASS_NAME = OwnField("name", "string", "Name of the class.", required=True)

OWN_TYPES: dict[str, OwnType] = {
    f"{_CORE}.QOSResourceRequest": OwnType(
        "QOSResourceRequest asks for one class of one type of QoS-class resource.",
        (_NAME, OwnField("class", "string", "Name of the class.", required=True)),
    ),
    f"{_CORE}.NodeClassResource": OwnType(
        "NodeClassResource is one type of class that a node offers.",
        (
            _NAME,
            OwnField("immutable", "bool", "Whether who is in a class of this type must stay in it while it runs."),
            OwnField("classes", "[]v1.NodeClass", f"The classes of the type. {_BY_NAME}", key="name"),
        ),
    ),
    f"{_CORE}.NodeClass": OwnType(
        "NodeClass is one class that a node offers.",
        (
            _CLASS_NAME,
            OwnField("capacity", "*int64", "How many can be in the class at once, at least 1. Not set: no limit."),
        ),
    ),
    f"{_CORE}.NodeReservation": OwnType(
        "NodeReservation is an amount of a node that pods cannot have.",
        (
            OwnField("resource", "string", "Name of the resource, such as `cpu`.", required=True),
            OwnField("for", "string", "Whom it is kept for: `system`, `kube` or `eviction`.", required=True),
            OwnField("amount", "resource.Quantity", "How much of the resource is kept.", required=True),
            OwnField("source", "string", "Where the amount comes from, such as `flag` or `provider NAME`."),
        ),
    ),
    f"{_CORE}.ClassQuota": OwnType(
        "ClassQuota says which classes of one type may be used. A class that is not listed may not.",
        (_NAME, OwnField("classes", "[]v1.ClassQuotaClass", f"The classes that may be used. {_BY_NAME}", key="name")),
    ),
    f"{_CORE}.ClassQuotaClass": OwnType(
        "ClassQuotaClass is a class that may be used.",
        (_CLASS_NAME, OwnField("capacity", "*int64", "How many may be in the class at once. Not set: no limit.")),
    ),
    f"{_CORE}.ClassQuotaStatus": OwnType(
        "ClassQuotaStatus is how much of the classes of one type is used.",
        (_NAME, OwnField("classes", "[]v1.ClassQuotaUsage", f"The classes that may be used. {_BY_NAME}", key="name")),
    ),
    f"{_CORE}.ClassQuotaUsage": OwnType(
        "ClassQuotaUsage is how much of one class is used.",
        (
            _CLASS_NAME,
            OwnField("capacity", "*int64", "How many may be in the class at once. Not set: no limit."),
            OwnField("used", "*int64", "How many are in the class."),
        ),
    ),
}

_QOS_RESOURCES = OwnField(
    "qosResources",
    "[]v1.QOSResourceRequest",
    "Another way to write `resources.classes`, which is what is stored.",
    key="name",
)


def _levels(go_type: str, verb: str) -> tuple[OwnField, ...]:
    return (
        OwnField("podClassResources", go_type, f"Types of classes that pods {verb}. {_BY_NAME}", key="name"),
        OwnField(
            "containerClassResources", go_type, f"Types of classes that containers {verb}. {_BY_NAME}", key="name"
        ),
    )


OWN_FIELDS: dict[str, tuple[OwnField, ...]] = {
    f"{_CORE}.ResourceRequirements": (
        OwnField(
            "classes",
            "map[string]string",
            "Classes by type, such as `blockio: slow`. Of a container: the class it is to run in. Of a pod: its class "
            "where the node offers the type for pods, else that of all containers that name none. In a status: the "
            "class in effect, empty when there is none although one was asked for. Which types and classes there are "
            "is up to the nodes (`status.podClassResources` and `status.containerClassResources`), which of them may "
            "be used is up to the namespace's ResourceQuotas. May be changed through `pods/resize`.",
        ),
        _QOS_RESOURCES,
    ),
    f"{_CORE}.PodSpec": (_QOS_RESOURCES,),
    f"{_CORE}.NodeStatus": (
        *_levels("[]v1.NodeClassResource", "can ask for on this node"),
        OwnField("reservations", "[]v1.NodeReservation", "What pods cannot have of the node's capacity, and why."),
    ),
    f"{_CORE}.ResourceQuotaSpec": _levels("[]v1.ClassQuota", "may use"),
    f"{_CORE}.ResourceQuotaStatus": _levels("[]v1.ClassQuotaStatus", "may use, and what they use of them"),
    f"{_CORE}.LimitRangeItem": (
        OwnField(
            "defaultClasses",
            "map[string]string",
            "Classes by type for pods and containers that name none. Types Container and Pod only.",
        ),
    ),
}
"""Additional fields, by the published name of one of Kubernetes' types."""
