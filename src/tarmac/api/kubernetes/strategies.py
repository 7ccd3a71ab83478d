"""Which rules each of Kubernetes' own kinds follows, how its names look and which fields it can be selected by.

Rows are built on first use, so that a server that never sees a kind does not load its rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from tarmac.api.resource import Strategy
from tarmac.base import names

_CORE = ""
_PACKAGE = "tarmac.api.kubernetes"

# (group, kind) -> module and class of the strategy
_STRATEGIES: dict[tuple[str, str], tuple[str, str]] = {
    (_CORE, "ConfigMap"): ("core.data", "ConfigMapStrategy"),
    (_CORE, "Namespace"): ("core.namespaces", "NamespaceStrategy"),
    (_CORE, "PersistentVolumeClaim"): ("core.claims", "ClaimStrategy"),
    (_CORE, "Pod"): ("core.pods.strategy", "PodStrategy"),
    (_CORE, "Secret"): ("core.data", "SecretStrategy"),
    (_CORE, "ServiceAccount"): ("core.serviceaccounts", "ServiceAccountStrategy"),
}

# field selectors beyond metadata.name and metadata.namespace
_SELECTABLE: dict[tuple[str, str], tuple[str, ...]] = {
    (_CORE, "Namespace"): ("status.phase",),
    (_CORE, "Pod"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    (_CORE, "Secret"): ("type",),
}

NameCheck = Callable[[str], list[str]]

# kinds whose names are not DNS subdomains
_NAMES: dict[tuple[str, str], NameCheck] = {
    (_CORE, "Namespace"): names.dns1123_label,
    (_CORE, "Service"): names.dns1035_label,
    ("rbac.authorization.k8s.io", "ClusterRole"): names.path_segment_name,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): names.path_segment_name,
    ("rbac.authorization.k8s.io", "Role"): names.path_segment_name,
    ("rbac.authorization.k8s.io", "RoleBinding"): names.path_segment_name,
}


@cache
def strategy_for(group: str, kind: str) -> Strategy:
    """The strategy of one kind; kinds without rules of their own get the plain one."""
    found = _STRATEGIES.get((group, kind))
    if found is None:
        return Strategy()
    module, name = found
    return getattr(import_module(f"{_PACKAGE}.{module}"), name)()


def name_validator_for(group: str, kind: str) -> NameCheck:
    """What `metadata.name` must satisfy."""
    return _NAMES.get((group, kind), names.dns1123_subdomain)


def selectable_for(group: str, kind: str) -> tuple[str, ...]:
    """The keys of the strategy's `selectable_fields`."""
    return _SELECTABLE.get((group, kind), ())
