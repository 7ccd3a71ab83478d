"""The strategy, name rules and selectable fields of each of Kubernetes' own kinds."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api import checks
from tarmac.api.kubernetes import certificates, clusterclasses, endpointslices, rbac
from tarmac.api.kubernetes.apps import daemonsets, deployments, podtemplates, replicasets, statefulsets
from tarmac.api.kubernetes.autoscaling import autoscalers, firstversion
from tarmac.api.kubernetes.batch import cronjobs, jobs
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core import (
    data,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumes,
    quotas,
    serviceaccounts,
    volumeclaims,
)
from tarmac.api.kubernetes.core.pods import strategy as pods
from tarmac.api.kubernetes.core.services import strategy as services
from tarmac.api.kubernetes.devices import resourceclaims as resourceclaims
from tarmac.api.kubernetes.devices import slices
from tarmac.api.kubernetes.flowcontrol import levels, schemas
from tarmac.api.kubernetes.networking import addresses, ingresses, policies
from tarmac.api.kubernetes.storage import attachments, drivers
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_SPEC = (("MinAvailable", None), ("Selector", None), ("MaxUnavailable", None), ("UnhealthyPodEvictionPolicy", None))
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class ControllerRevisionStrategy(KubernetesStrategy):
    """ControllerRevision."""

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        checks.non_negative(obj.get("revision", 0), "revision", errors)
        data = obj.get("data")
        if data is None:
            errors.required("data", "data is mandatory")
        elif not isinstance(data, dict):
            errors.required("data", "data must be a valid JSON object")

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        checks.non_negative(new.get("revision", 0), "revision", errors)
        checks.immutable(new.get("data"), old.get("data"), "data", errors)


class LeaseStrategy(KubernetesStrategy):
    """Lease. Drops fields of coordinated leader election, which is not supported."""

    allow_create_on_update = True
    allow_unconditional_update = False

    def prepare_for_create(self, obj: JsonObject) -> None:
        _drop_coordination(obj)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        _drop_coordination(new)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj.get("spec") or {}
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
        transitions = spec.get("leaseTransitions")
        if transitions is not None:
            checks.non_negative(transitions, "spec.leaseTransitions", errors)


def _drop_coordination(lease: JsonObject) -> None:
    """Drop the fields of coordinated leader election, which is not supported."""
    for field in ("strategy", "preferredHolder"):
        (lease.get("spec") or {}).pop(field, None)


class DisruptionBudgetStrategy(KubernetesStrategy):
    """PodDisruptionBudget."""

    has_status = True
    generation = True
    allow_unconditional_update = False

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            errors.invalid("spec", checks.go_struct(spec, *_SPEC), "minAvailable and maxUnavailable cannot be both set")
        for field in ("minAvailable", "maxUnavailable"):
            if (limit := spec.get(field)) is not None:
                _validate_limit(limit, f"spec.{field}", errors)
        checks.label_selector(spec.get("selector"), "spec.selector", errors)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        status = new.get("status") or {}
        for field in _COUNTS:
            checks.non_negative(status.get(field, 0), f"status.{field}", errors)


def _validate_limit(limit: int | str, path: str, errors: FieldErrors) -> None:
    if isinstance(limit, int):
        checks.non_negative(limit, path, errors)
    elif messages := names.percent(limit):
        checks.report(messages, limit, path, errors)
    elif int(limit.removesuffix("%")) > 100:
        errors.invalid(path, limit, "must not be greater than 100%")


NameCheck = Callable[[str], list[str]]

_CORE = ""
_DEVICES = "resource.k8s.io"
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"

_STRATEGIES: dict[tuple[str, str], Strategy] = {
    (_CORE, "ConfigMap"): data.ConfigMapStrategy(),
    (_CORE, "Endpoints"): endpoints.EndpointsStrategy(),
    (_CORE, "Event"): events.EventStrategy(),
    (_CORE, "LimitRange"): limitranges.LimitRangeStrategy(),
    (_CORE, "Namespace"): namespaces.NamespaceStrategy(),
    (_CORE, "Node"): nodes.NodeStrategy(),
    (_CORE, "PersistentVolume"): persistentvolumes.PersistentVolumeStrategy(),
    (_CORE, "PersistentVolumeClaim"): volumeclaims.ClaimStrategy(),
    (_CORE, "Pod"): pods.PodStrategy(),
    (_CORE, "PodTemplate"): podtemplates.PodTemplateStrategy(),
    (_CORE, "ReplicationController"): replicasets.ReplicationControllerStrategy(),
    (_CORE, "ResourceQuota"): quotas.ResourceQuotaStrategy(),
    (_CORE, "Secret"): data.SecretStrategy(),
    (_CORE, "Service"): services.ServiceStrategy(),
    (_CORE, "ServiceAccount"): serviceaccounts.ServiceAccountStrategy(),
    ("apps", "ControllerRevision"): ControllerRevisionStrategy(),
    ("apps", "DaemonSet"): daemonsets.DaemonSetStrategy(),
    ("apps", "Deployment"): deployments.DeploymentStrategy(),
    ("apps", "ReplicaSet"): replicasets.ReplicaSetStrategy(),
    ("apps", "StatefulSet"): statefulsets.StatefulSetStrategy(),
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.AutoscalerStrategy(),
    ("batch", "CronJob"): cronjobs.CronJobStrategy(),
    ("batch", "Job"): jobs.JobStrategy(),
    ("certificates.k8s.io", "CertificateSigningRequest"): certificates.SigningRequestStrategy(),
    ("coordination.k8s.io", "Lease"): LeaseStrategy(),
    ("discovery.k8s.io", "EndpointSlice"): endpointslices.EndpointSliceStrategy(),
    ("events.k8s.io", "Event"): events.NewEventStrategy(),
    (_FLOW_CONTROL, "FlowSchema"): schemas.FlowSchemaStrategy(),
    (_FLOW_CONTROL, "PriorityLevelConfiguration"): levels.PriorityLevelStrategy(),
    ("networking.k8s.io", "IPAddress"): addresses.IPAddressStrategy(),
    ("networking.k8s.io", "Ingress"): ingresses.IngressStrategy(),
    ("networking.k8s.io", "IngressClass"): ingresses.IngressClassStrategy(),
    ("networking.k8s.io", "NetworkPolicy"): policies.NetworkPolicyStrategy(),
    ("networking.k8s.io", "ServiceCIDR"): addresses.ServiceCIDRStrategy(),
    ("node.k8s.io", "RuntimeClass"): clusterclasses.RuntimeClassStrategy(),
    ("policy", "PodDisruptionBudget"): DisruptionBudgetStrategy(),
    (rbac.GROUP, "ClusterRole"): rbac.ClusterRoleStrategy(),
    (rbac.GROUP, "ClusterRoleBinding"): rbac.ClusterRoleBindingStrategy(),
    (rbac.GROUP, "Role"): rbac.RoleStrategy(),
    (rbac.GROUP, "RoleBinding"): rbac.RoleBindingStrategy(),
    (_DEVICES, "DeviceClass"): resourceclaims.DeviceClassStrategy(),
    (_DEVICES, "ResourceClaim"): resourceclaims.ResourceClaimStrategy(),
    (_DEVICES, "ResourceClaimTemplate"): resourceclaims.ResourceClaimTemplateStrategy(),
    (_DEVICES, "ResourceSlice"): slices.ResourceSliceStrategy(),
    ("scheduling.k8s.io", "PriorityClass"): clusterclasses.PriorityClassStrategy(),
    ("storage.k8s.io", "CSIDriver"): drivers.CSIDriverStrategy(),
    ("storage.k8s.io", "CSINode"): drivers.CSINodeStrategy(),
    ("storage.k8s.io", "CSIStorageCapacity"): drivers.CSIStorageCapacityStrategy(),
    ("storage.k8s.io", "StorageClass"): clusterclasses.StorageClassStrategy(),
    ("storage.k8s.io", "VolumeAttachment"): attachments.VolumeAttachmentStrategy(),
    ("storage.k8s.io", "VolumeAttributesClass"): attachments.VolumeAttributesClassStrategy(),
}

# kinds whose other versions differ: (group, version, kind)
_OF_VERSIONS: dict[tuple[str, str, str], Strategy] = {
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): firstversion.FirstAutoscalerStrategy(),
}

# field selectors beyond metadata.name and metadata.namespace
_SELECTABLE: dict[tuple[str, str], tuple[str, ...]] = {
    (_CORE, "Event"): events.SELECTABLE,
    (_CORE, "Namespace"): ("status.phase",),
    (_CORE, "Node"): ("spec.unschedulable",),
    (_CORE, "Pod"): pods.SELECTABLE,
    (_CORE, "Secret"): ("type",),
    (_CORE, "Service"): ("spec.clusterIP", "spec.type"),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec.signerName",),
    ("events.k8s.io", "Event"): events.SELECTABLE,
    (_DEVICES, "ResourceSlice"): slices.SELECTABLE,
}


def _any_name(_: str) -> list[str]:
    return []


# kinds with names that are not DNS subdomains
_NAMES: dict[tuple[str, str], NameCheck] = {
    (_CORE, "Event"): _any_name,
    (_CORE, "Namespace"): names.dns1123_label,
    (_CORE, "Service"): names.dns1035_label,
    ("certificates.k8s.io", "CertificateSigningRequest"): _any_name,
    ("networking.k8s.io", "IPAddress"): addresses.address_name,
    (rbac.GROUP, "ClusterRole"): names.path_segment_name,
    (rbac.GROUP, "ClusterRoleBinding"): names.path_segment_name,
    (rbac.GROUP, "Role"): names.path_segment_name,
    (rbac.GROUP, "RoleBinding"): names.path_segment_name,
}


def strategy_for(group: str, kind: str, version: str = "") -> Strategy:
    """Return the strategy of one kind; kinds without rules of their own get the plain one."""
    return _OF_VERSIONS.get((group, version, kind)) or _STRATEGIES.get((group, kind)) or Strategy()


def name_validator_for(group: str, kind: str) -> NameCheck:
    """Return the check of `metadata.name`."""
    return _NAMES.get((group, kind), names.dns1123_subdomain)


def selectable_for(group: str, kind: str) -> tuple[str, ...]:
    """Return the keys of the strategy's `selectable_fields`."""
    return _SELECTABLE.get((group, kind), ())
