"""One small object of each further kind that both servers have, with its collection."""

from __future__ import annotations

from tests.differential.shared import BUDGETS, CORE, LEASES, meta
from tests.differential.steps import Json

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NAME = "$ns-a"  # of objects outside namespaces


def _of(api_version: str, kind: str, name: str, **fields: Json) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": meta(name, labels={"case": "$ns"}), **fields}


_QUOTA = {"hard": {"pods": "10", "requests.cpu": "1500m", "count/widgets.example.com": "5"}}
_LIMIT = {"type": "Container", "default": {"cpu": "1"}, "max": {"memory": "1Gi"}}
_RULE = {"nonResourceURLs": ["/x"], "verbs": ["get"]}
_BINDING = {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    "subjects": [{"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "robot", "namespace": "$ns"}],
}
_VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "hostPath": {"path": "/data"},
    "claimRef": {"name": "c", "namespace": "$ns"},
}
_SLICE = {
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}],
    "ports": [{"name": "http", "port": 80}],
}

# kind -> (collection, object)
SAMPLES: dict[str, tuple[str, Json]] = {
    "secret": (f"{CORE}/secrets", _of("v1", "Secret", "a", stringData={"k": "v"})),
    "serviceaccount": (f"{CORE}/serviceaccounts", _of("v1", "ServiceAccount", "a", secrets=[{"name": "s"}])),
    "limitrange": (f"{CORE}/limitranges", _of("v1", "LimitRange", "a", spec={"limits": [_LIMIT]})),
    "resourcequota": (f"{CORE}/resourcequotas", _of("v1", "ResourceQuota", "a", spec=_QUOTA)),
    "claim": (
        f"{CORE}/persistentvolumeclaims",
        _of(
            "v1",
            "PersistentVolumeClaim",
            "a",
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
    ),
    "volume": ("/api/v1/persistentvolumes", _of("v1", "PersistentVolume", _NAME, spec=_VOLUME)),
    "node": (
        "/api/v1/nodes",
        _of("v1", "Node", _NAME, spec={"podCIDR": "10.9.0.0/24", "taints": [{"key": "x", "effect": "NoSchedule"}]}),
    ),
    "endpointslice": (
        "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices",
        _of("discovery.k8s.io/v1", "EndpointSlice", "a", **_SLICE),
    ),
    "lease": (LEASES, _of("coordination.k8s.io/v1", "Lease", "a", spec={"holderIdentity": "me"})),
    "budget": (
        BUDGETS,
        _of(
            "policy/v1",
            "PodDisruptionBudget",
            "a",
            spec={"maxUnavailable": "25%", "selector": {"matchLabels": {"x": "y"}}},
        ),
    ),
    "controllerrevision": (
        "/apis/apps/v1/namespaces/$ns/controllerrevisions",
        _of("apps/v1", "ControllerRevision", "a", revision=3, data={"spec": {"x": [1, None, {"y": 1.5}]}}),
    ),
    "rolebinding": (
        f"{_RBAC}/namespaces/$ns/rolebindings",
        _of("rbac.authorization.k8s.io/v1", "RoleBinding", "a", **_BINDING),
    ),
    "clusterrole": (
        f"{_RBAC}/clusterroles",
        _of("rbac.authorization.k8s.io/v1", "ClusterRole", _NAME, rules=[_RULE]),
    ),
    "clusterrolebinding": (
        f"{_RBAC}/clusterrolebindings",
        _of("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", _NAME, **_BINDING),
    ),
    "storageclass": (
        "/apis/storage.k8s.io/v1/storageclasses",
        _of("storage.k8s.io/v1", "StorageClass", _NAME, provisioner="example.com/disks"),
    ),
    "priorityclass": (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        _of("scheduling.k8s.io/v1", "PriorityClass", _NAME, value=100),
    ),
    "runtimeclass": (
        "/apis/node.k8s.io/v1/runtimeclasses",
        _of("node.k8s.io/v1", "RuntimeClass", _NAME, handler="kata"),
    ),
}


def without_labels(body: Json) -> Json:
    """Return the same object without its labels."""
    return {**body, "metadata": {"name": body["metadata"]["name"]}}
