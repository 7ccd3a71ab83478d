"""The columns of `kubectl get` for each of Kubernetes' own kinds."""

from __future__ import annotations

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.apps import appscolumns as apps
from tarmac.api.kubernetes.cells import AGE, NAME, NONE, UNSET, cell, field
from tarmac.api.kubernetes.core import corecolumns as core
from tarmac.api.kubernetes.devices import devicecolumns as devices
from tarmac.api.kubernetes.flowcontrol import flowcontrolcolumns as flowcontrol
from tarmac.api.kubernetes.networking import networkingcolumns as networking
from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.kubernetes.storage import storagecolumns as storage
from tarmac.api.resource import Column
from tarmac.api.schema import JsonObject
from tarmac.base.duration import human_duration

_RBAC = "rbac.authorization.k8s.io"
_REVISION = "revision indicates the revision of the state represented by Data."
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _subjects(kind: str, name: str, noun: str) -> Column:
    def value(binding: JsonObject) -> str:
        subjects = [subject for subject in objects(binding, "subjects") if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject.get('name', '')}" for subject in subjects)
        return ", ".join(subject.get("name", "") for subject in subjects)

    return cell(name, value, f"{name} in the {noun}", wide=True)


def _binding(noun: str) -> tuple[Column, ...]:
    return (
        NAME,
        cell("Role", lambda obj: f"{obj['roleRef'].get('kind', '')}/{obj['roleRef'].get('name', '')}", ".roleRef"),
        AGE,
        _subjects("User", "Users", noun),
        _subjects("Group", "Groups", noun),
        _subjects("ServiceAccount", "ServiceAccounts", noun),
    )


def _request_condition(request: JsonObject) -> str:
    types = {condition.get("type") for condition in objects(request, "status", "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if mapping(request, "status").get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _requested_duration(request: JsonObject) -> str:
    seconds = mapping(request, "spec").get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _storage_class_name(obj: JsonObject) -> str:
    annotations = mapping(obj, "metadata", "annotations")
    default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{obj['metadata']['name']} (default)" if default else obj["metadata"]["name"]


def _slice_ports(obj: JsonObject) -> str:
    ports = objects(obj, "ports")
    return core.shorten([str(port.get("port") or port.get("name") or "*") for port in ports]) or UNSET


def _slice_endpoints(obj: JsonObject) -> str:
    addresses = [address for endpoint in objects(obj, "endpoints") for address in endpoint.get("addresses") or ()]
    return core.shorten(addresses) or UNSET


def _controller(obj: JsonObject) -> str:
    owner = next((each for each in objects(obj, "metadata", "ownerReferences") if each.get("controller")), None)
    if owner is None:
        return NONE
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind']}{f'.{group}' if group else ''}".lower() + f"/{owner['name']}"


def _budget(name: str, key: str, description: str) -> Column:
    def value(obj: JsonObject) -> str:
        limit = mapping(obj, "spec").get(key)
        return "N/A" if limit is None else str(limit)

    return cell(name, value, description)


def _usage(name: str) -> Column:
    """Return a column with the usage of one resource by a node, or by all containers of a pod together."""

    def value(metrics: JsonObject) -> str:
        parts = [metrics] if "usage" in metrics else objects(metrics, "containers")
        amounts = [quantity(mapping(part, "usage").get(name, "0")) for part in parts]
        return str(sum(amounts, ZERO))

    return Column(name, value, format="quantity")


_METRICS = (
    NAME,
    _usage("cpu"),
    _usage("memory"),
    Column("Window", lambda obj: obj.get("window", ""), format="duration"),
)

_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    **{("", kind): columns for kind, columns in core.COLUMNS.items()},
    **apps.COLUMNS,
    **storage.COLUMNS,
    **networking.COLUMNS,
    **devices.COLUMNS,
    **flowcontrol.COLUMNS,
    ("events.k8s.io", "Event"): core.COLUMNS["Event"],
    ("apps", "ControllerRevision"): (
        NAME,
        cell("Controller", _controller, "Controller of the object"),
        cell("Revision", lambda obj: obj.get("revision", 0), _REVISION),
        AGE,
    ),
    ("coordination.k8s.io", "Lease"): (NAME, field("Holder", ".spec.holderIdentity"), AGE),
    ("discovery.k8s.io", "EndpointSlice"): (
        NAME,
        field("AddressType", ".addressType"),
        cell("Ports", _slice_ports, ".ports"),
        cell("Endpoints", _slice_endpoints, ".endpoints"),
        AGE,
    ),
    ("metrics.k8s.io", "NodeMetrics"): _METRICS,
    ("metrics.k8s.io", "PodMetrics"): _METRICS,
    ("node.k8s.io", "RuntimeClass"): (NAME, cell("Handler", lambda obj: obj.get("handler", "")), AGE),
    ("policy", "PodDisruptionBudget"): (
        NAME,
        _budget("Min Available", "minAvailable", "The minimum number of pods that must be available."),
        _budget("Max Unavailable", "maxUnavailable", "The maximum number of pods that may be unavailable."),
        cell(
            "Allowed Disruptions",
            lambda obj: mapping(obj, "status").get("disruptionsAllowed", 0),
            "Calculated number of pods that may be disrupted at this time.",
            type="integer",
        ),
        AGE,
    ),
    (_RBAC, "RoleBinding"): _binding("roleBinding"),
    (_RBAC, "ClusterRoleBinding"): _binding("clusterRoleBinding"),
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        NAME,
        AGE,
        field("SignerName", ".spec.signerName", default=NONE),
        cell("Requestor", lambda obj: mapping(obj, "spec").get("username", ""), ".spec.request"),
        cell("RequestedDuration", _requested_duration, ".spec.expirationSeconds"),
        cell("Condition", _request_condition, ".status.conditions"),
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        NAME,
        field("Value", ".value", default=0, type="integer"),
        field("Global-Default", ".globalDefault", default=False, type="boolean"),
        AGE,
        field("PreemptionPolicy", ".preemptionPolicy"),
    ),
    ("storage.k8s.io", "StorageClass"): (
        Column("Name", _storage_class_name, format="name", description=NAME.description),
        field("Provisioner", ".provisioner"),
        field("ReclaimPolicy", ".reclaimPolicy", default="Delete"),
        field("VolumeBindingMode", ".volumeBindingMode", default="Immediate"),
        field("AllowVolumeExpansion", ".allowVolumeExpansion", default=False),
        AGE,
    ),
}


_PLAIN = (
    NAME,
    Column(
        "Created At",
        lambda obj: obj["metadata"].get("creationTimestamp"),
        "date",
        description=".metadata.creationTimestamp",
    ),
)


def columns_for(group: str, kind: str) -> tuple[Column, ...]:
    """Return the columns of one kind; kinds without columns of their own show name and creation time."""
    return _COLUMNS.get((group, kind), _PLAIN)
