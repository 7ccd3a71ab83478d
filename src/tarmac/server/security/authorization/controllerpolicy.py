"""The rights of each controller, as data: the minimum that it needs.

Controllers read through caches that their process shares. So the process has the right to list and watch, and a
controller's own role holds only the requests that it makes itself. A role is called `tarmac:controller:<name>` and
bound to the controller's service account; the process's role, `tarmac:controllers`, is derived from its controllers.

Two controllers need wide rights, since they handle objects of every kind: garbage collection and namespace deletion.
One writes rights that it does not have: the rules of aggregated roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tarmac.api import identities
from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.kubernetes.runtimeclasses import OVERHEADS
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.nodetokens import REVOKED_MAP
from tarmac.server.security.authorization.policy import Rule, rule

_CERTIFICATES = "certificates.k8s.io"
_LEASES = "coordination.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_FOLLOW = "list watch"
_OVERHEAD = rule("get patch", "node.k8s.io", "runtimeclasses", " ".join(OVERHEADS))
_EVENTS = rule("create patch", "core", "events")
# Lets controllers pass on the class of a template. Admission checks the author of the template, and then the
# controllers that create Pods from it.
_PRIORITIES = rule("use", "scheduling.k8s.io", "priorityclasses")
_KUBELET_SIGNERS = "kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving"


class Duties(NamedTuple):
    """The rights that one controller needs."""

    follows: dict[str, str]  # API group -> resources, both in the shorthand of rules
    does: list[Rule]


DUTIES: dict[str, Duties] = {
    "garbage": Duties({}, [rule("delete get list patch watch", "*", "*"), _EVENTS]),
    "namespace": Duties(
        {"core": "namespaces"},
        [
            rule("get", "core", "namespaces"),
            rule("patch", "core", "namespaces/status"),
            rule("update", "core", "namespaces/finalize"),
            rule("delete deletecollection list", "*", "*"),
        ],
    ),
    "serviceaccount": Duties(
        {"core": "configmaps namespaces serviceaccounts"},
        [rule("create", "core", "configmaps serviceaccounts"), rule("update", "core", "configmaps")],
    ),
    "serviceaccounttoken": Duties(
        {"core": "secrets serviceaccounts"},
        [rule("delete patch", "core", "secrets"), rule("get", "core", "serviceaccounts")],
    ),
    "clusterrole": Duties(
        {_RBAC: "clusterroles"},
        # It aggregates rules that other users have granted, so it writes rights that it does not have.
        [rule("escalate patch", _RBAC, "clusterroles")],
    ),
    "certificates": Duties(
        {_CERTIFICATES: "certificatesigningrequests", "core": "nodes secrets services"},
        [
            rule("delete", _CERTIFICATES, "certificatesigningrequests"),
            rule("update", _CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
            rule("approve", _CERTIFICATES, "signers", _KUBELET_SIGNERS),
            rule("sign", _CERTIFICATES, "signers", f"{_KUBELET_SIGNERS} kubernetes.io/kube-apiserver-client"),
            rule("create", "authorization.k8s.io", "subjectaccessreviews"),
            rule("create get", "core", "nodes"),
            # bootstrap tokens: it counts their uses and deletes expired ones
            rule("delete get update", "core", "secrets"),
            rule("get", "core", "configmaps", REVOKED_MAP),
            rule("list", "discovery.k8s.io", "endpointslices"),
            rule("get", NETWORKING, "locations"),
        ],
    ),
    "volume": Duties(
        {"core": "nodes persistentvolumeclaims persistentvolumes pods", "storage.k8s.io": "storageclasses"},
        [
            rule("create get patch", "core", "persistentvolumeclaims"),
            rule("create delete patch", "core", "persistentvolumes"),
            rule("patch", "core", "persistentvolumeclaims/status persistentvolumes/status"),
            rule("list", "core", "pods"),
            _EVENTS,
        ],
    ),
    "service": Duties(
        {"core": "endpoints nodes pods services", "discovery.k8s.io": "endpointslices"},
        [
            rule("create delete update", "core", "endpoints"),
            rule("get", "core", "services"),
            rule("create delete update", "discovery.k8s.io", "endpointslices"),
            _EVENTS,
        ],
    ),
    "serviceaddress": Duties(
        {"core": "services", "networking.k8s.io": "ipaddresses servicecidrs"},
        [
            rule("create delete", "networking.k8s.io", "ipaddresses"),
            rule("patch", "networking.k8s.io", "servicecidrs/status"),
        ],
    ),
    "endpointslicemirroring": Duties(
        {"core": "endpoints services", "discovery.k8s.io": "endpointslices"},
        [rule("create delete update", "discovery.k8s.io", "endpointslices"), _EVENTS],
    ),
    "workload": Duties(
        {COMPUTE: "workloaddeployments workloads", NETWORKING: "locations networks"},
        [
            rule("patch", COMPUTE, "workloads workloads/status"),
            rule("create delete get list patch", COMPUTE, "workloaddeployments"),
            _PRIORITIES,
            rule("create delete get list", "apps", "controllerrevisions"),
            _EVENTS,
        ],
    ),
    "deployment": Duties(
        {
            "core": "persistentvolumeclaims pods resourcequotas",
            COMPUTE: "instances workloaddeployments",
            NETWORKING: "networkbindings networkcontexts networks subnets",
        },
        [
            rule("patch", COMPUTE, "workloaddeployments workloaddeployments/status"),
            rule("create delete get patch", COMPUTE, "instances"),
            rule("create delete", NETWORKING, "networkbindings"),
            rule("delete", "core", "persistentvolumeclaims"),
            _PRIORITIES,
        ],
    ),
    "instance": Duties(
        {
            "core": "configmaps persistentvolumeclaims pods secrets",
            COMPUTE: "instances instancetypes localmachineimages machineimages",
            NETWORKING: "locations networkbindings networks",
        },
        [
            rule("patch", COMPUTE, "instances instances/status"),
            rule("create delete get", "core", "pods"),
            rule("create delete", "core", "persistentvolumeclaims"),
            _PRIORITIES,
            _EVENTS,
        ],
    ),
    "ingress": Duties(
        {
            "core": "namespaces nodes pods services",
            "discovery.k8s.io": "endpointslices",
            COMPUTE: "workloads",
            NETWORKING: "addresspools bgppeers networks publicaddresses",
            SUBMARINER: "sourceipclasses",
        },
        [
            rule("get", "core", "namespaces services"),
            rule("patch", "core", "services/status"),
            rule("create delete update", "discovery.k8s.io", "endpointslices"),
            rule("get", COMPUTE, "workloads"),
            rule("patch", COMPUTE, "workloads/status"),
            rule("patch", NETWORKING, "addresspools addresspools/status bgppeers/status"),
            rule("create delete get patch", NETWORKING, "publicaddresses"),
            rule("patch", NETWORKING, "publicaddresses/status"),
            _EVENTS,
        ],
    ),
    "external": Duties(
        {
            "core": "namespaces nodes pods services",
            "discovery.k8s.io": "endpointslices",
            NETWORKING: "locations networks",
            SUBMARINER: "externalservices forwarders gateways sourceipclaims sourceipclasses sourceips",
        },
        [
            rule("get", "core", "namespaces"),
            rule("get", SUBMARINER, "externalservices sourceipclaims sourceips"),
            rule("patch", SUBMARINER, "sourceipclaims sourceipclaims/status sourceipclasses sourceipclasses/status"),
            rule("create delete patch", SUBMARINER, "sourceips"),
            rule("patch", SUBMARINER, "sourceips/status"),
            rule("patch", SUBMARINER, "externalservices externalservices/status"),
            rule("create delete patch", SUBMARINER, "forwarders gateways"),
            rule("patch", SUBMARINER, "gateways/status"),
            _EVENTS,
        ],
    ),
    "instancetype": Duties(
        {COMPUTE: "instancetypes workloaddeployments workloads"},
        [rule("create patch", COMPUTE, "instancetypes"), rule("patch", COMPUTE, "instancetypes/status")],
    ),
    "machineimage": Duties(
        {COMPUTE: "machineimages workloaddeployments workloads"},
        [rule("create patch", COMPUTE, "machineimages"), rule("patch", COMPUTE, "machineimages/status")],
    ),
    identities.DEPLOYMENT_SCHEDULER: Duties(
        {COMPUTE: "workloaddeployments workloads", NETWORKING: "locations"},
        [rule("patch", COMPUTE, "workloaddeployments/status"), _EVENTS],
    ),
    identities.POD_SCHEDULER: Duties(
        {
            "core": "namespaces nodes persistentvolumeclaims persistentvolumes pods",
            "node.k8s.io": "runtimeclasses",
            "policy": "poddisruptionbudgets",
            COMPUTE: "instances",
            NETWORKING: "networkbindings networkcontexts networks subnets",
        },
        [
            rule("create", "core", "pods/binding"),
            rule("delete", "core", "pods"),
            rule("patch", "core", "persistentvolumeclaims pods pods/status"),
            rule("create", NETWORKING, "networkbindings"),
            _EVENTS,
        ],
    ),
    "network": Duties(
        {
            "core": "namespaces nodes pods",
            COMPUTE: "instances",
            NETWORKING: "locations networkbindings networkcontexts networks subnetclaims subnets",
        },
        [
            rule("create patch", NETWORKING, "networkcontexts networks"),
            rule("create", NETWORKING, "subnetclaims subnets"),
            rule("delete", NETWORKING, "networkbindings networkcontexts"),
            rule("patch", NETWORKING, "networkbindings/status networkcontexts/status networks/status"),
            rule("patch", NETWORKING, "subnetclaims/status subnets/status"),
            _EVENTS,
        ],
    ),
    "location": Duties(
        {"core": "nodes", COMPUTE: "workloaddeployments", NETWORKING: "locations"},
        [rule("patch", NETWORKING, "locations locations/status")],
    ),
    "node": Duties(
        {"core": "nodes pods", _LEASES: "leases"},
        [
            rule("delete get patch", "core", "nodes"),
            rule("delete", "core", "pods"),
            rule("create", "core", "pods/eviction"),
            rule("patch", "core", "nodes/status pods/status"),
            rule("delete get", _LEASES, "leases"),
            # for decommissioned nodes: their disks are deleted and their certificates revoked
            rule("delete list", "core", "persistentvolumes"),
            rule("delete", "core", "persistentvolumeclaims"),
            rule("create", "core", "configmaps"),
            rule("get patch", "core", "configmaps", REVOKED_MAP),
            _EVENTS,
        ],
    ),
    "quota": Duties(
        {"core": "pods resourcequotas", "node.k8s.io": "runtimeclasses", COMPUTE: "instances instancetypes"},
        [rule("patch", COMPUTE, "instances instances/status")],
    ),
    "disruption": Duties(
        {"core": "pods", "policy": "poddisruptionbudgets", COMPUTE: "instances workloaddeployments"},
        [
            rule("patch", "policy", "poddisruptionbudgets/status"),
            # the expected number of pods, where they are not of a Workload
            rule("get", "apps", "deployments/scale replicasets replicasets/scale statefulsets/scale"),
            rule("get", "core", "replicationcontrollers/scale"),
            _EVENTS,
        ],
    ),
    "autoscaler": Duties(
        {COMPUTE: "instances instancetypes workloaddeployments", NETWORKING: "locations"},
        [
            rule("patch", COMPUTE, "workloaddeployments/scale workloaddeployments/status"),
            rule("list", "metrics.k8s.io", "pods"),
        ],
    ),
    identities.BOOTSTRAP: Duties(
        {},
        [
            rule("create", "core", "namespaces"),
            rule("create", "node.k8s.io", "runtimeclasses"),
            _OVERHEAD,
            rule("create", "scheduling.k8s.io", "priorityclasses"),
            rule("create", "flowcontrol.apiserver.k8s.io", "flowschemas prioritylevelconfigurations"),
            rule("create", "networking.k8s.io", "servicecidrs"),
            rule("create", COMPUTE, "instancetypes machineimages"),
        ],
    ),
}


BESIDE_OTHERS: dict[str, Duties] = DUTIES | {
    # No preemption, and no Networks for plain Pods and namespaces.
    identities.POD_SCHEDULER: Duties(
        {"core": "nodes persistentvolumeclaims persistentvolumes pods", "node.k8s.io": "runtimeclasses"},
        [
            rule("create", "core", "pods/binding"),
            rule("patch", "core", "persistentvolumeclaims pods/status"),
            _EVENTS,
        ],
    ),
    "network": Duties(
        {**DUTIES["network"].follows, "core": "nodes pods", COMPUTE: "instances workloads"},
        [
            rule("create patch", NETWORKING, "networkcontexts networks"),
            rule("create", NETWORKING, "subnetclaims subnets"),
            rule("delete", NETWORKING, "networkcontexts"),
            rule("patch", NETWORKING, "networkbindings/status networkcontexts/status networks/status"),
            rule("patch", NETWORKING, "subnetclaims/status subnets/status"),
            _EVENTS,
        ],
    ),
    identities.BOOTSTRAP: Duties(
        {},
        [
            rule("create", "node.k8s.io", "runtimeclasses"),
            _OVERHEAD,
            rule("create", COMPUTE, "instancetypes machineimages"),
        ],
    ),
}
"""The duties in a cluster that has its own scheduler, controllers and network."""


class Role(NamedTuple):
    """A ClusterRole and its service account."""

    name: str
    rules: list[Rule]
    account: str


def controller_roles(names: Iterable[str] = DUTIES, duties: Mapping[str, Duties] = DUTIES) -> Iterator[Role]:
    """Yield the roles of these controllers and of the process that runs them."""
    chosen = sorted({*names, identities.BOOTSTRAP})
    yield Role("tarmac:controllers", _of_the_process(chosen, duties), identities.PROCESS)
    for name in chosen:
        yield Role(f"tarmac:controller:{name}", duties[name].does, identities.account(name))


def _of_the_process(names: Iterable[str], duties: Mapping[str, Duties]) -> list[Rule]:
    """Return the rules to fill caches, hold the lease and impersonate the controllers."""
    followed: dict[str, set[str]] = {}
    for name in names:
        for group, resources in duties[name].follows.items():
            followed.setdefault(group, set()).update(resources.split())
    accounts = " ".join(identities.account(name) for name in names)
    return [
        *(rule(_FOLLOW, group, " ".join(sorted(resources))) for group, resources in sorted(followed.items())),
        rule("create", _LEASES, "leases"),
        rule("get update", _LEASES, "leases", identities.PROCESS),
        rule("impersonate", "core", "serviceaccounts", accounts),
    ]
