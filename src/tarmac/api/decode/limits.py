"""How many entries some lists and maps of Kubernetes' kinds may have.

Kubernetes leaves them open. Here they end far above what anybody writes and far below what would keep others waiting,
where each entry costs more than to be read: it is held against every node, every pod, or every other entry. What is not
named here is limited by what a document may hold as a whole (`extent`).
"""

from __future__ import annotations

_CORE = "io.k8s.api.core.v1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RBAC = "io.k8s.api.rbac.v1."
_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": 20,
    "preferredDuringSchedulingIgnoredDuringExecution": 20,
}

MOST_ITEMS: dict[str, dict[str, int]] = {
    _META + "ObjectMeta": {"labels": 1000, "finalizers": 1000, "ownerReferences": 250, "managedFields": 1000},
    _META + "LabelSelector": {"matchLabels": 100, "matchExpressions": 100},
    _CORE + "PodSpec": {
        "containers": 250,
        "initContainers": 250,
        "ephemeralContainers": 250,
        "volumes": 1000,
        "nodeSelector": 100,
        "tolerations": 250,
        "topologySpreadConstraints": 20,
    },
    _CORE + "Container": {"ports": 1000, "volumeMounts": 1000},
    _CORE + "EphemeralContainer": {"ports": 1000, "volumeMounts": 1000},
    _CORE + "NodeSelector": {"nodeSelectorTerms": 20},
    _CORE + "NodeSelectorTerm": {"matchExpressions": 20, "matchFields": 20},
    _CORE + "NodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": 20},
    _CORE + "PodAffinity": _AFFINITY,
    _CORE + "PodAntiAffinity": _AFFINITY,
    _CORE + "ServiceSpec": {"selector": 100, "ports": 1000, "externalIPs": 1000, "loadBalancerSourceRanges": 1000},
    _CORE + "NodeSpec": {"taints": 250},
    _RBAC + "AggregationRule": {"clusterRoleSelectors": 100},
}
"""By the published name of a type, and its field."""
