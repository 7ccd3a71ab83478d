"""Paths and bodies that cases have in common."""

from __future__ import annotations

from typing import Any

from tests.differential.steps import Json

CORE = "/api/v1/namespaces/$ns"
MAPS = f"{CORE}/configmaps"
PODS = f"{CORE}/pods"
SERVICES = f"{CORE}/services"
SECRETS = f"{CORE}/secrets"
ACCOUNTS = f"{CORE}/serviceaccounts"
EVENTS = f"{CORE}/events"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/$ns/rolebindings"
BUDGETS = "/apis/policy/v1/namespaces/$ns/poddisruptionbudgets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
COMPUTE = "/apis/compute.datumapis.com/v1alpha"
WORKLOADS = f"{COMPUTE}/namespaces/$ns/workloads"
DEPLOYMENTS = f"{COMPUTE}/namespaces/$ns/workloaddeployments"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def meta(name: str, **more: Any) -> Json:
    """Object metadata."""
    return {"name": name, **more}


def config_map(name: str = "a", data: Json = None, **metadata: Any) -> Json:
    """A ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, **metadata)}
    return body if data is None else {**body, "data": data}


def pod(name: str = "a", spec: Json = None, **metadata: Any) -> Json:
    """A Pod that needs only the default account of its namespace."""
    base = {
        "containers": [{"name": "main", "image": "registry.example/app:1"}],
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta(name, **metadata), "spec": {**base, **(spec or {})}}


def service(name: str = "a", spec: Json = None, **metadata: Any) -> Json:
    """A Service of one port."""
    base = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta(name, **metadata), "spec": {**base, **(spec or {})}}


def role(name: str = "a", rules: Json = None, **metadata: Any) -> Json:
    """A Role with the right to read pods."""
    rules = rules if rules is not None else [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    return {**kind, "metadata": meta(name, **metadata), "rules": rules}


def role_binding(name: str, cluster_role: str) -> Json:
    """A RoleBinding of one user."""
    return {
        "metadata": meta(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
    }


def workload(name: str = "a", replicas: int = 1, **metadata: Any) -> Json:
    """A Workload of one container in one city."""
    runtime = {
        "resources": {"instanceType": "datumcloud/d1-standard-2"},
        "sandbox": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }
    template = {"spec": {"runtime": runtime, "networkInterfaces": [{"name": "eth0", "network": {"name": "default"}}]}}
    placement = {"name": "eu", "cityCodes": ["AMS"], "scaleSettings": {"minReplicas": replicas}}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": meta(name, **metadata),
        "spec": {"template": template, "placements": [placement]},
    }


def deployment(name: str = "a", **metadata: Any) -> Json:
    """A WorkloadDeployment, the part of a Workload in one city."""
    whole = workload(name, **metadata)
    placement = whole["spec"]["placements"][0]
    spec = {
        "cityCode": "AMS",
        "placementName": "eu",
        "replicas": 1,
        "workloadRef": {"name": name, "uid": "7b1e0f1c-0000-0000-0000-000000000000"},
        "scaleSettings": placement["scaleSettings"],
        "template": whole["spec"]["template"],
    }
    return {**whole, "kind": "WorkloadDeployment", "spec": spec}


# Objects that Workloads refer to: (collection, object).
CLUSTER_OBJECTS: tuple[tuple[str, Json], ...] = (
    (
        "/apis/networking.datumapis.com/v1alpha/locations",
        {
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "Location",
            "metadata": meta("ams"),
            "spec": {
                "locationClassName": "self-managed",
                "topology": {"topology.datum.net/city-code": "AMS", "topology.datum.net/region": "EU"},
                "provider": {"nodes": {}},
            },
        },
    ),
)
