"""Limits on entries of lists and maps of Kubernetes' kinds.

Kubernetes does not limit them. These limits are far above real use and far below sizes that would delay other requests.
They exist where an entry costs more than reading it: it is compared with every node, every pod, or every other entry.
All other lists and maps are limited by the size of the whole document (`extent`).
"""

from __future__ import annotations

_CORE = "io.k8s.api.core.v1."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_RBAC = "io.k8s.api.rbac.v1."
_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": 20,
    "preferredDuringSchedulingIgnoredDuringExecution": 20,
}

MAX_ITEMS: dict[str, dict[str, int]] = {
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

MAX_LABELS = MAX_ITEMS[_META + "ObjectMeta"]["labels"]
"""An object with more could not be updated any more, so additions of the server are limited as well."""
