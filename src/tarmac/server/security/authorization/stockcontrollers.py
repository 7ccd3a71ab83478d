"""Roles of the controllers of kube-controller-manager that Tarmac runs beside the server.

Each controller acts under a service account of its own in `kube-system`. It has the rights of Kubernetes' role of that
name, less those that no controller of version 1.35 uses: deleting claims, binding and updating Pods, reading Secrets.
Account names differ from the names that the program's `--controllers` flag takes.

The program itself is a user of its own: it fills the shared caches, leads by a Lease, and requests tokens of exactly
these accounts. Kubernetes' role `system:kube-controller-manager` may request tokens of every account, which includes
cluster administrators, and read every Secret.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.identities import NAMESPACE, user_name
from tarmac.server.security.authorization.policy import Rule, rule

STOCK_PROCESS: Final = "tarmac-kubernetes-controllers"
"""The user of the program."""

_LEADER: Final = "tarmac:kubernetes-controllers-leader"
_INFORMERS: Final = "tarmac:kubernetes-controllers"
_PREFIX: Final = "system:controller:"
_EVENTS: Final = rule("create patch update", "core events.k8s.io", "events")

_CONTROLLERS: Final[dict[str, list[Rule]]] = {
    "system:controller:deployment-controller": [
        rule("get list watch", "apps extensions", "deployments"),
        rule("update", "apps extensions", "deployments/status"),
        rule("update", "apps extensions", "deployments/finalizers"),
        rule("create delete get list patch update watch", "apps extensions", "replicasets"),
        rule("get list watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:replicaset-controller": [
        rule("get list watch", "apps extensions", "replicasets"),
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
        rule("create get list update watch", "core", "persistentvolumeclaims"),
        rule("update", "core", "pods/finalizers"),
        _EVENTS,
    ],
    "system:controller:daemon-set-controller": [
        rule("get list watch", "apps extensions", "daemonsets"),
        rule("update", "apps extensions", "daemonsets/status"),
        rule("update", "apps extensions", "daemonsets/finalizers"),
        rule("list watch", "core", "nodes"),
        rule("create delete list patch watch", "core", "pods"),
        rule("create delete get list patch update watch", "apps", "controllerrevisions"),
        _EVENTS,
    ],
    "system:controller:job-controller": [
        rule("get list patch watch", "batch", "jobs"),
        rule("update", "batch", "jobs/status"),
        rule("update", "batch", "jobs/finalizers"),
        rule("create delete list patch watch", "core", "pods"),
        _EVENTS,
    ],
    "system:controller:cronjob-controller": [
        rule("get list watch", "batch", "cronjobs"),
        rule("create delete get list watch", "batch", "jobs"),
        rule("update", "batch", "cronjobs/status"),
        rule("update", "batch", "cronjobs/finalizers"),
        _EVENTS,
    ],
    "system:controller:replication-controller": [
        rule("get list watch", "core", "replicationcontrollers"),
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
_ACCOUNTS: Final = tuple(role.removeprefix(_PREFIX) for role in _CONTROLLERS)

STOCK_USERS: Final[frozenset[str]] = frozenset(map(user_name, _ACCOUNTS))
"""The user names of the controllers."""

STOCK_ROLES: Final[dict[str, list[Rule]]] = {
    **_CONTROLLERS,
    _INFORMERS: [
        rule("list watch", "core", "nodes persistentvolumeclaims pods replicationcontrollers"),
        rule("list watch", "apps", "controllerrevisions daemonsets deployments replicasets statefulsets"),
        rule("list watch", "autoscaling", "horizontalpodautoscalers"),
        rule("list watch", "batch", "cronjobs jobs"),
    ],
    # Bound in one namespace: a token of an account with such a name elsewhere is not for it.
    _LEADER: [
        rule("create", "coordination.k8s.io", "leases"),
        rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        rule("create", "core", "serviceaccounts"),
        rule("get", "core", "serviceaccounts", " ".join(_ACCOUNTS)),
        rule("create", "core", "serviceaccounts/token", " ".join(_ACCOUNTS)),
        _EVENTS,
    ],
}

STOCK_BINDINGS: Final[dict[str, tuple[str, list[str]]]] = {
    **{
        f"{_PREFIX}{account}": (f"{_PREFIX}{account}", [f"ServiceAccount {NAMESPACE}/{account}"])
        for account in _ACCOUNTS
    },
    _INFORMERS: (_INFORMERS, [f"User {STOCK_PROCESS}"]),
}
"""Cluster-wide: binding -> role, subjects."""

STOCK_NAMESPACE_BINDINGS: Final[dict[str, tuple[str, list[str]]]] = {_LEADER: (_LEADER, [f"User {STOCK_PROCESS}"])}
"""The same in `kube-system` alone."""
