"""The default roles and bindings of every server, as data. `defaults.py` creates and repairs them.

Controllers' roles are in `controllerpolicy`.

Shorthand: words separated by spaces; the core API group is called `core`.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.nodetokens import AUTHORITIES_PATH, SERVERS_PATH
from tarmac.api.repositories import GROUP as IMAGES
from tarmac.api.repositories import PULL, PUSH, REGISTRY, TOKENS_PATH
from tarmac.api.repositories import RESOURCE as REPOSITORIES
from tarmac.api.restored import NODES_PATH

Rule = dict[str, Any]

_READ = "get list watch"
_WRITE = "create delete deletecollection patch update"
_READ_WRITE = f"{_READ} {_WRITE}"
_CERTIFICATES = "certificates.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_COMPUTE = "compute.datumapis.com"
_NETWORKING = "networking.datumapis.com"
_SUBMARINER = "submariner.io"
SERVER_TO_NODES = "kube-apiserver-kubelet-client"  # the server's user name for calls to the nodes' APIs
SIMULATED_NODES = "system:tarmac:simulated-nodes"
NODE_NETWORK = "tarmac:node-network"
NODE_EXTERNAL = "tarmac:node-external"
NODE_INGRESS = "tarmac:node-ingress"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Rule:
    """Build a rule for resources."""
    made: Rule = {
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    if names:
        made["resourceNames"] = names.split()
    return made


def urls(verbs: str, paths: str) -> Rule:
    """Build a rule for non-resource URLs."""
    return {"nonResourceURLs": paths.split(), "verbs": verbs.split()}


_EVENTS = rule("create patch update", "core events.k8s.io", "events")
_REVIEWS = [
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "subjectaccessreviews"),
]

NODE_RULES: list[Rule] = [
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    rule(_READ, "core", "services"),
    rule("create get list watch", "core", "nodes"),
    rule("patch update", "core", "nodes/status"),
    rule("patch update", "core", "nodes"),
    _EVENTS,
    rule(_READ, "core", "pods"),
    rule("create delete", "core", "pods"),
    rule("patch update", "core", "pods/status"),
    rule("create", "core", "pods/eviction"),
    rule(_READ, "core", "configmaps secrets"),
    rule("get", "core", "persistentvolumeclaims persistentvolumes"),
    rule("get", "core", "endpoints"),
    rule("create get list watch", _CERTIFICATES, "certificatesigningrequests"),
    rule("create delete get patch update", "coordination.k8s.io", "leases"),
    rule("get", "storage.k8s.io", "volumeattachments"),
    rule("create", "core", "serviceaccounts/token"),
    rule("get patch update", "core", "persistentvolumeclaims/status"),
    rule(_READ, "node.k8s.io", "runtimeclasses"),
    rule("get", "core", "serviceaccounts"),
]

_VIEW = [
    rule(_READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods"),
    rule(_READ, "core", "serviceaccounts services services/status"),
    rule(_READ, "core", "bindings limitranges namespaces/status pods/log pods/status resourcequotas"),
    rule(_READ, "core", "resourcequotas/status"),
    rule(_READ, "core", "namespaces"),
    rule(_READ, "core events.k8s.io", "events"),
    rule(_READ, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale"),
    rule(_READ, "apps", "deployments/status replicasets replicasets/scale replicasets/status statefulsets"),
    rule(_READ, "apps", "statefulsets/scale statefulsets/status"),
    rule(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    rule(_READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    rule(_READ, "core", "replicationcontrollers replicationcontrollers/scale replicationcontrollers/status"),
    rule(_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    rule(_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
    rule(_READ, "discovery.k8s.io", "endpointslices"),
    rule(_READ, "metrics.k8s.io", "nodes pods"),
    rule(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    rule(_READ, _COMPUTE, "instances instances/status instancetypes localmachineimages machineimages"),
    rule(_READ, _COMPUTE, "workloads workloads/scale workloads/status"),
    rule(_READ, _COMPUTE, "workloaddeployments workloaddeployments/scale workloaddeployments/status"),
    rule("get", _COMPUTE, "instances/why workloaddeployments/why workloads/history workloads/why"),
    rule("get", "core", "pods/why replicationcontrollers/why services/why"),
    rule("get", "apps", "daemonsets/why deployments/why replicasets/why statefulsets/why"),
    rule("get", "batch", "cronjobs/why jobs/why"),
    rule(_READ, _NETWORKING, "locations networkbindings networkcontexts networkpolicies networks"),
    rule(_READ, _NETWORKING, "networks/status podendpoints subnetclaims subnets"),
    # Pools, classes and addresses are cluster-scoped: visible only if this role is granted by a ClusterRoleBinding.
    rule(_READ, _SUBMARINER, "externalservices sourceipclaims sourceipclasses sourceips"),
    rule(_READ, _NETWORKING, "addresspools publicaddresses"),
    rule("get", _SUBMARINER, "externalservices/why sourceipclaims/why sourceipclasses/why sourceips/why"),
    rule("get", _NETWORKING, "addresspools/why publicaddresses/why"),
]

_EDIT = [
    rule(_READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    rule("impersonate", "core", "serviceaccounts"),
    rule(_WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    rule("create", "core", "pods/eviction"),
    rule(_WRITE, "core", "configmaps persistentvolumeclaims secrets serviceaccounts services services/proxy"),
    rule("create", "core", "serviceaccounts/token"),
    rule(_WRITE, "core events.k8s.io", "events"),
    rule(_WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets"),
    rule(_WRITE, "apps", "replicasets/scale statefulsets statefulsets/scale"),
    rule(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    rule(_WRITE, "batch", "cronjobs jobs"),
    rule(_WRITE, "core", "replicationcontrollers replicationcontrollers/scale"),
    rule(_WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    rule(_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    rule(_WRITE, "policy", "poddisruptionbudgets"),
    rule(_READ_WRITE, "coordination.k8s.io", "leases"),
    rule(_WRITE, _COMPUTE, "localmachineimages workloads"),
    rule("create", _COMPUTE, "workloads/plan"),
    rule("patch update", _COMPUTE, "workloaddeployments/scale workloads/scale"),
    # Only controllers create Instances; if one is deleted, its deployment replaces it.
    rule("delete deletecollection", _COMPUTE, "instances"),
    rule("create get", _COMPUTE, "instances/console instances/vnc"),
    rule("create", _COMPUTE, "instances/power"),
    rule(_WRITE, _NETWORKING, "networkpolicies networks subnetclaims"),
    rule("use", _NETWORKING, "networks"),
    rule(_WRITE, _SUBMARINER, "externalservices sourceipclaims"),
    rule("create", _SUBMARINER, "externalservices/plan sourceipclaims/plan"),
    rule("create", "core", "services/plan"),
    rule("get", _SUBMARINER, "externalservices/connections"),
    # Checked in the namespace of the claim. The class itself lists the namespaces it allows; so does a pool.
    rule("use", _SUBMARINER, "sourceipclasses"),
    rule("use", _NETWORKING, "addresspools"),
]

_ADMIN = [
    rule("get", _COMPUTE, "instances/recordings"),
    rule(f"{PULL} {PUSH}", IMAGES, REPOSITORIES),
    # Lets a namespace's administrator permit nodes to request pod tokens for an audience (RBAC lets users grant only
    # rights they have). It adds no power: `edit` may already create tokens of an account for any audience.
    rule("request-serviceaccounts-token-audience", "core", "*"),
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    rule(_READ_WRITE, _RBAC, "rolebindings roles"),
]

_HEALTH = "/healthz /livez /readyz"
_VERSION = "/version /version/"
# static files without secrets; a browser needs them before it can present a token
_DASHBOARD = "/dashboard /dashboard/*"
# exchanges a provider's authorization code for a token, so the caller cannot have one yet
_SIGN_IN = "/dashboard/sign-in"

# name -> rules
CLUSTER_ROLES: dict[str, list[Rule]] = {
    "cluster-admin": [rule("*", "*", "*"), urls("*", "*")],
    "system:discovery": [urls("get", f"/api /api/* /apis /apis/* {_HEALTH} /openapi /openapi/* {_VERSION}")],
    "system:monitoring": [
        urls("get", f"{_HEALTH} /healthz/* /livez/* /readyz/* /metrics /metrics/slis /tarmac/v1/targets/*"),
        rule("get", "core", "nodes/metrics"),
    ],
    "system:basic-user": [
        rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        rule("create", "authentication.k8s.io", "selfsubjectreviews"),
    ],
    "system:public-info-viewer": [urls("get", f"{_HEALTH} {_VERSION} {_DASHBOARD}"), urls("post", _SIGN_IN)],
    "system:aggregate-to-view": _VIEW,
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-admin": _ADMIN,
    "system:node": NODE_RULES,
    "system:node-problem-detector": [
        rule("get", "core", "nodes"),
        rule("patch", "core", "nodes/status"),
        _EVENTS,
    ],
    "system:node-bootstrapper": [rule("create get list watch", _CERTIFICATES, "certificatesigningrequests")],
    "system:auth-delegator": _REVIEWS,
    "system:kube-controller-manager": [
        _EVENTS,
        rule("create", "coordination.k8s.io", "leases"),
        rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        rule("create", "core", "secrets serviceaccounts"),
        rule("delete", "core", "secrets"),
        rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
        rule("update", "core", "secrets serviceaccounts"),
        *_REVIEWS,
        rule("list watch", "*", "*"),
        rule("create", "core", "serviceaccounts/token"),
    ],
    "system:kube-scheduler": [
        _EVENTS,
        rule("create", "coordination.k8s.io", "leases"),
        rule("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
        rule(_READ, "core", "namespaces nodes persistentvolumeclaims persistentvolumes services"),
        rule("delete get list watch", "core", "pods"),
        rule("create", "core", "bindings pods/binding"),
        rule("patch update", "core", "pods/status"),
        rule(_READ, "policy", "poddisruptionbudgets"),
        *_REVIEWS,
    ],
    "system:volume-scheduler": [
        rule("get list patch update watch", "core", "persistentvolumeclaims persistentvolumes"),
        rule(_READ, "storage.k8s.io", "storageclasses"),
    ],
    "system:kubelet-api-admin": [
        rule(_READ, "core", "nodes"),
        rule("proxy", "core", "nodes"),
        rule("*", "core", "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
    ],
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient": [
        rule("create", _CERTIFICATES, "certificatesigningrequests/nodeclient")
    ],
    "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": [
        rule("create", _CERTIFICATES, "certificatesigningrequests/selfnodeclient")
    ],
    "system:certificates.k8s.io:kubelet-serving-approver": [
        rule("approve", _CERTIFICATES, "signers", "kubernetes.io/kubelet-serving")
    ],
    "system:certificates.k8s.io:kube-apiserver-client-approver": [
        rule("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client")
    ],
    "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver": [
        rule("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet")
    ],
    "system:service-account-issuer-discovery": [
        urls("get", "/.well-known/openid-configuration /.well-known/openid-configuration/"),
        urls("get", "/openid/v1/jwks /openid/v1/jwks/"),
    ],
    # A node's datapath needs these beyond the node authorizer: the addresses and nodes of pods, and the policies and
    # names that apply to them. For pods of other nodes it reads PodEndpoints, never Pods.
    NODE_NETWORK: [
        rule(_READ, "core", "namespaces"),
        rule(_READ, "discovery.k8s.io", "endpointslices"),
        rule(_READ, _NETWORKING, "networkpolicies networks"),
        rule(_READ, "networking.k8s.io", "networkpolicies"),
        rule("list watch", _NETWORKING, "podendpoints tunnelendpoints"),
    ],
    # Agents watch these for external services, besides the Forwarders of their own node, and report in their status.
    # NodeRestriction makes sure that each node reports for itself only.
    NODE_EXTERNAL: [
        rule("list watch", _SUBMARINER, "externalservices gateways"),
        rule("patch", _SUBMARINER, "forwarders/status gateways/status"),
    ],
    # Agents compile the way in for their own node from these, and report in their status. NodeRestriction makes sure
    # that each node reports for itself only.
    NODE_INGRESS: [
        rule("list watch", _NETWORKING, "addresspools bgppeers publicaddresses"),
        rule("patch", _NETWORKING, "bgppeers/status publicaddresses/status"),
    ],
    # For operators of public addresses without cluster-admin. Passwords of peers are Secrets of kube-system, which this
    # role cannot read.
    "tarmac:address-manager": [
        rule(_READ_WRITE, _NETWORKING, "addresspools bgppeers publicaddresses"),
        rule("get", _NETWORKING, "addresspools/why bgppeers/why publicaddresses/why"),
    ],
    # For operators of gateways and addresses without cluster-admin.
    "tarmac:source-ip-manager": [
        rule(_READ_WRITE, _SUBMARINER, "sourceipclasses sourceips"),
        rule("get", _SUBMARINER, "sourceipclasses/why sourceips/why"),
    ],
    # Classes that run on the host's kernel are restricted: admission requires this right.
    "tarmac:priorityclass-user": [rule("use", "scheduling.k8s.io", "priorityclasses")],
    "tarmac:runtimeclass-user": [rule("use", "node.k8s.io", "runtimeclasses")],
    # The nodes of `tarmac up --runtime sim`; they share one user.
    "tarmac:simulated-nodes": [
        rule("create list patch watch", "core", "nodes"),
        rule("patch", "core", "nodes/status pods/status"),
        rule("delete get list watch", "core", "pods"),
        rule("create patch", "coordination.k8s.io", "leases"),
        rule("create patch", "core", "events"),
        rule("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        rule("patch", "core", "persistentvolumeclaims/status persistentvolumes"),
        rule("get", "core", "configmaps secrets"),
        # Sessions in simulated instances resolve peers, and ask before they connect.
        rule("get list watch", "core", "services"),
        rule("get", "core", "pods/why"),
        rule("list watch", "node.k8s.io", "runtimeclasses"),
        rule("list watch", _SUBMARINER, "forwarders gateways"),
        rule("patch", _SUBMARINER, "forwarders/status gateways/status"),
        rule("list watch", "discovery.k8s.io", "endpointslices"),
        rule("list watch", _NETWORKING, "addresspools bgppeers publicaddresses"),
        rule("patch", _NETWORKING, "bgppeers/status publicaddresses/status"),
    ],
    # For bindings in namespaces: unbound by default, for nodes too. A node pulls with the identity of a pod, by a token
    # that it may request for the registry.
    "tarmac:image-puller": [rule(PULL, IMAGES, REPOSITORIES)],
    "tarmac:image-pusher": [rule(f"{PULL} {PUSH}", IMAGES, REPOSITORIES)],
    "tarmac:node-registry": [rule("request-serviceaccounts-token-audience", "core", REGISTRY)],
    "tarmac:registry-client": [urls("get post", TOKENS_PATH)],
    # Public: a joining host compares the answer with the hash in its token before it trusts the server or sends a
    # secret.
    "tarmac:authorities-viewer": [urls("get", AUTHORITIES_PATH)],
    # The handler checks that the credential is a server token, so that other users are told which credential it takes.
    "tarmac:server-joiner": [urls("post", SERVERS_PATH)],
    # The handler checks that each node opens only its own tunnel and speaks only for itself.
    "tarmac:node-tunnel": [urls("get post", f"{NODES_PATH}*")],
}

# role -> the role it is aggregated into
AGGREGATED: dict[str, str] = {"admin": "", "edit": "admin", "view": "edit"}

# role -> group and resources it once allowed and no longer does; removed from stored roles at the next start
REVOKED: dict[str, tuple[str, str]] = {
    NODE_NETWORK: ("", "pods"),
    **dict.fromkeys(("system:aggregate-to-view", *AGGREGATED), (_SUBMARINER, "forwarders gateways")),
}

# binding -> role, subjects: "User name", "Group name" or "ServiceAccount namespace/name"
CLUSTER_ROLE_BINDINGS: dict[str, tuple[str, list[str]]] = {
    "cluster-admin": ("cluster-admin", ["Group system:masters"]),
    "system:monitoring": ("system:monitoring", ["Group system:monitoring"]),
    "system:discovery": ("system:discovery", ["Group system:authenticated"]),
    "system:basic-user": ("system:basic-user", ["Group system:authenticated"]),
    "system:public-info-viewer": (
        "system:public-info-viewer",
        ["Group system:authenticated", "Group system:unauthenticated"],
    ),
    "system:kube-controller-manager": ("system:kube-controller-manager", ["User system:kube-controller-manager"]),
    "system:kube-scheduler": ("system:kube-scheduler", ["User system:kube-scheduler"]),
    "system:volume-scheduler": ("system:volume-scheduler", ["User system:kube-scheduler"]),
    "system:node": ("system:node", []),
    "system:service-account-issuer-discovery": (
        "system:service-account-issuer-discovery",
        ["Group system:serviceaccounts"],
    ),
    NODE_NETWORK: (NODE_NETWORK, ["Group system:nodes"]),
    NODE_EXTERNAL: (NODE_EXTERNAL, ["Group system:nodes"]),
    NODE_INGRESS: (NODE_INGRESS, ["Group system:nodes"]),
    "tarmac:node-tunnel": ("tarmac:node-tunnel", ["Group system:nodes"]),
    "tarmac:node-registry": ("tarmac:node-registry", ["Group system:nodes"]),
    "tarmac:registry-client": (
        "tarmac:registry-client",
        ["Group system:authenticated", "Group system:unauthenticated"],
    ),
    "tarmac:authorities-viewer": (
        "tarmac:authorities-viewer",
        ["Group system:authenticated", "Group system:unauthenticated"],
    ),
    "tarmac:server-joiner": ("tarmac:server-joiner", ["Group system:authenticated"]),
    "tarmac:priorityclass-user": ("tarmac:priorityclass-user", ["Group system:serviceaccounts:kube-system"]),
    "tarmac:runtimeclass-user": ("tarmac:runtimeclass-user", ["Group system:serviceaccounts:kube-system"]),
    "tarmac:simulated-nodes": ("tarmac:simulated-nodes", [f"User {SIMULATED_NODES}"]),
    "tarmac:server-to-nodes": ("system:kubelet-api-admin", [f"User {SERVER_TO_NODES}"]),
    "tarmac:node-bootstrapper": ("system:node-bootstrapper", ["Group system:bootstrappers"]),
    "tarmac:node-autoapprove-bootstrap": (
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        ["Group system:bootstrappers"],
    ),
    "tarmac:node-autoapprove-certificate-rotation": (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ["Group system:nodes"],
    ),
}


def aggregation_label(role: str) -> str:
    """Return the label that aggregates a role into `admin`, `edit` or `view`."""
    return f"{_AGGREGATE}{role}"
