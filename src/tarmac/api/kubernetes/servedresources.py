"""The served resources of Kubernetes. `make setup` generates tables for these only."""

from __future__ import annotations

# (group, version) -> plurals; groups in Kubernetes' order, by which clients resolve short names
SERVED: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "v1"): (
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ),
    ("apps", "v1"): ("controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"),
    ("events.k8s.io", "v1"): ("events",),
    ("authentication.k8s.io", "v1"): ("selfsubjectreviews", "tokenreviews"),
    ("authorization.k8s.io", "v1"): (
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ),
    ("autoscaling", "v2"): ("horizontalpodautoscalers",),
    ("autoscaling", "v1"): ("horizontalpodautoscalers",),
    ("batch", "v1"): ("cronjobs", "jobs"),
    ("certificates.k8s.io", "v1"): ("certificatesigningrequests",),
    ("networking.k8s.io", "v1"): ("ingressclasses", "ingresses", "ipaddresses", "networkpolicies", "servicecidrs"),
    ("policy", "v1"): ("poddisruptionbudgets",),
    ("rbac.authorization.k8s.io", "v1"): ("clusterrolebindings", "clusterroles", "rolebindings", "roles"),
    ("storage.k8s.io", "v1"): (
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
    ),
    ("scheduling.k8s.io", "v1"): ("priorityclasses",),
    ("coordination.k8s.io", "v1"): ("leases",),
    ("node.k8s.io", "v1"): ("runtimeclasses",),
    ("discovery.k8s.io", "v1"): ("endpointslices",),
    ("flowcontrol.apiserver.k8s.io", "v1"): ("flowschemas", "prioritylevelconfigurations"),
    ("resource.k8s.io", "v1"): ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
    ("metrics.k8s.io", "v1beta1"): ("nodes", "pods"),
}

# kinds that appear in bodies but are no resource of their own: (group, version, kind)
BODIES: tuple[tuple[str, str, str], ...] = (
    ("", "v1", "DeleteOptions"),
    ("", "v1", "Status"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
)
