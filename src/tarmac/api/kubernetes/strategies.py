"""The strategy, name rules and selectable fields of each of Kubernetes' own kinds."""

from __future__ import annotations

from collections.abc import Callable

from tarmac.api.kubernetes import budgets, certificates, classes, endpointslices, leases, rbac, revisions
from tarmac.api.kubernetes.apps import daemonsets, deployments, podtemplates, replicasets, statefulsets
from tarmac.api.kubernetes.autoscaling import autoscalers, firstversion
from tarmac.api.kubernetes.batch import cronjobs, jobs
from tarmac.api.kubernetes.core import (
    claims,
    data,
    endpoints,
    events,
    limitranges,
    namespaces,
    nodes,
    persistentvolumes,
    quotas,
    serviceaccounts,
)
from tarmac.api.kubernetes.core.pods import strategy as pods
from tarmac.api.kubernetes.core.services import strategy as services
from tarmac.api.kubernetes.networking import ingresses, policies
from tarmac.api.kubernetes.storage import attachments, drivers
from tarmac.api.resource import Strategy
from tarmac.base import names

NameCheck = Callable[[str], list[str]]

_CORE = ""

_STRATEGIES: dict[tuple[str, str], Strategy] = {
    (_CORE, "ConfigMap"): data.ConfigMapStrategy(),
    (_CORE, "Endpoints"): endpoints.EndpointsStrategy(),
    (_CORE, "Event"): events.EventStrategy(),
    (_CORE, "LimitRange"): limitranges.LimitRangeStrategy(),
    (_CORE, "Namespace"): namespaces.NamespaceStrategy(),
    (_CORE, "Node"): nodes.NodeStrategy(),
    (_CORE, "PersistentVolume"): persistentvolumes.PersistentVolumeStrategy(),
    (_CORE, "PersistentVolumeClaim"): claims.ClaimStrategy(),
    (_CORE, "Pod"): pods.PodStrategy(),
    (_CORE, "PodTemplate"): podtemplates.PodTemplateStrategy(),
    (_CORE, "ReplicationController"): replicasets.ReplicationControllerStrategy(),
    (_CORE, "ResourceQuota"): quotas.ResourceQuotaStrategy(),
    (_CORE, "Secret"): data.SecretStrategy(),
    (_CORE, "Service"): services.ServiceStrategy(),
    (_CORE, "ServiceAccount"): serviceaccounts.ServiceAccountStrategy(),
    ("apps", "ControllerRevision"): revisions.ControllerRevisionStrategy(),
    ("apps", "DaemonSet"): daemonsets.DaemonSetStrategy(),
    ("apps", "Deployment"): deployments.DeploymentStrategy(),
    ("apps", "ReplicaSet"): replicasets.ReplicaSetStrategy(),
    ("apps", "StatefulSet"): statefulsets.StatefulSetStrategy(),
    ("autoscaling", "HorizontalPodAutoscaler"): autoscalers.AutoscalerStrategy(),
    ("batch", "CronJob"): cronjobs.CronJobStrategy(),
    ("batch", "Job"): jobs.JobStrategy(),
    ("certificates.k8s.io", "CertificateSigningRequest"): certificates.SigningRequestStrategy(),
    ("coordination.k8s.io", "Lease"): leases.LeaseStrategy(),
    ("discovery.k8s.io", "EndpointSlice"): endpointslices.EndpointSliceStrategy(),
    ("events.k8s.io", "Event"): events.NewEventStrategy(),
    ("networking.k8s.io", "Ingress"): ingresses.IngressStrategy(),
    ("networking.k8s.io", "IngressClass"): ingresses.IngressClassStrategy(),
    ("networking.k8s.io", "NetworkPolicy"): policies.NetworkPolicyStrategy(),
    ("node.k8s.io", "RuntimeClass"): classes.RuntimeClassStrategy(),
    ("policy", "PodDisruptionBudget"): budgets.DisruptionBudgetStrategy(),
    (rbac.GROUP, "ClusterRole"): rbac.ClusterRoleStrategy(),
    (rbac.GROUP, "ClusterRoleBinding"): rbac.ClusterRoleBindingStrategy(),
    (rbac.GROUP, "Role"): rbac.RoleStrategy(),
    (rbac.GROUP, "RoleBinding"): rbac.RoleBindingStrategy(),
    ("scheduling.k8s.io", "PriorityClass"): classes.PriorityClassStrategy(),
    ("storage.k8s.io", "CSIDriver"): drivers.CSIDriverStrategy(),
    ("storage.k8s.io", "CSINode"): drivers.CSINodeStrategy(),
    ("storage.k8s.io", "CSIStorageCapacity"): drivers.CSIStorageCapacityStrategy(),
    ("storage.k8s.io", "StorageClass"): classes.StorageClassStrategy(),
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
}


def _any_name(_: str) -> list[str]:
    return []


# kinds with names that are not DNS subdomains
_NAMES: dict[tuple[str, str], NameCheck] = {
    (_CORE, "Event"): _any_name,
    (_CORE, "Namespace"): names.dns1123_label,
    (_CORE, "Service"): names.dns1035_label,
    ("certificates.k8s.io", "CertificateSigningRequest"): _any_name,
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
