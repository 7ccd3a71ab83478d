"""Roles of the controllers of kube-controller-manager that Tarmac runs beside the server.

Each controller acts under a service account of its own in `kube-system`, with the rights that Kubernetes gives it.
Account names differ from the names that the program's `--controllers` flag takes.
"""

from __future__ import annotations

from typing import Final

from tarmac.server.security.policy import Rule, rule

_EVENTS: Final = rule("create patch update", "core events.k8s.io", "events")

STOCK_ROLES: Final[dict[str, list[Rule]]] = {
    "system:controller:deployment-controller": [
        rule("get list update watch", "apps extensions", "deployments"),
        rule("update", "apps extensions", "deployments/status"),
        rule("update", "apps extensions", "deployments/finalizers"),
        rule("create delete get list patch update watch", "apps extensions", "replicasets"),
        rule("get list update watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:replicaset-controller": [
        rule("get list update watch", "apps extensions", "replicasets"),
        rule("update", "apps extensions", "replicasets/status"),
        rule("update", "apps extensions", "replicasets/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:statefulset-controller": [
        rule("list watch", "core", "pods"),
        rule("get list watch", "apps", "statefulsets"),
        rule("update", "apps", "statefulsets/status"),
        rule("update", "apps", "statefulsets/finalizers"),
        rule("create delete get patch update", "core", "pods"),
        rule("create delete get list patch update watch", "apps", "controllerrevisions"),
        rule("create get list watch", "core", "persistentvolumeclaims"),
        rule("delete update", "core", "persistentvolumeclaims"),
        rule("update", "core", "pods/finalizers"),
        _EVENTS,
    ],
    "system:controller:daemon-set-controller": [
        rule("get list watch", "apps extensions", "daemonsets"),
        rule("update", "apps extensions", "daemonsets/status"),
        rule("update", "apps extensions", "daemonsets/finalizers"),
        rule("list watch", "core", "nodes"),
        rule("create delete list patch watch", "core", "pods"),
        rule("create", "core", "pods/binding"),
        rule("create delete get list patch update watch", "apps", "controllerrevisions"),
        _EVENTS,
    ],
    "system:controller:job-controller": [
        rule("get list patch update watch", "batch", "jobs"),
        rule("update", "batch", "jobs/status"),
        rule("update", "batch", "jobs/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:cronjob-controller": [
        rule("get list update watch", "batch", "cronjobs"),
        rule("create delete get list patch update watch", "batch", "jobs"),
        rule("update", "batch", "cronjobs/status"),
        rule("update", "batch", "cronjobs/finalizers"),
        rule("delete list watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:replication-controller": [
        rule("get list update watch", "core", "replicationcontrollers"),
        rule("update", "core", "replicationcontrollers/status"),
        rule("update", "core", "replicationcontrollers/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:ttl-after-finished-controller": [
        rule("delete get list watch", "batch", "jobs"),
        _EVENTS,
    ],
    "system:controller:horizontal-pod-autoscaler": [
        rule("get list watch", "autoscaling", "horizontalpodautoscalers"),
        rule("update", "autoscaling", "horizontalpodautoscalers/status"),
        rule("get update", "*", "*/scale"),
        rule("list watch", "core", "pods"),
        rule("list watch", "metrics.k8s.io", "pods"),
        rule("get list watch", "custom.metrics.k8s.io", "*"),
        rule("get list watch", "external.metrics.k8s.io", "*"),
        _EVENTS,
    ],
}

STOCK_BINDINGS: Final[dict[str, tuple[str, list[str]]]] = {
    role: (role, [f"ServiceAccount kube-system/{role.removeprefix('system:controller:')}"]) for role in STOCK_ROLES
}
