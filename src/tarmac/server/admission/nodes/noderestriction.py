"""NodeRestriction: a node may change only itself and the pods that run on it.

The node authorizer decides about reads and verbs; this plugin inspects the written objects.
"""

from __future__ import annotations

from tarmac.api.compute.names import LABEL_ACCELERATOR
from tarmac.api.identities import TOKEN_OF_NODE, VERSION
from tarmac.api.ingress.names import BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.api.mirrorpods import MIRROR
from tarmac.api.networking.names import ANNOTATION_UNDERLAY_MTU
from tarmac.api.nodetokens import DELETE_DISKS, LEAVING
from tarmac.api.resource import Resource
from tarmac.api.rotations import TRUSTS
from tarmac.api.schema import JsonObject
from tarmac.api.status import not_found
from tarmac.base.clock import Clock
from tarmac.decide.addresses import underlay_objection
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.nodes.nodeforwarding import admit_forwarder, admit_gateway, only_status
from tarmac.server.admission.nodes.nodeingress import admit_peer, admit_public_address
from tarmac.server.admission.nodes.nodewrites import METADATA, check_addresses, check_metadata, check_mirror_spec
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podplugin import mirrors
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer

_PREFIX = "system:node:"
_NODES = "core/nodes"
_CLAIMS = "core/persistentvolumeclaims"
_ACCOUNTS = "core/serviceaccounts"
_LEASES = "coordination.k8s.io/leases"
_FORWARDERS, _GATEWAYS = "submariner.io/forwarders", "submariner.io/gateways"
_LEASE_NAMESPACE = "kube-node-lease"
_RESTRICTED = METADATA | {_CLAIMS, _ACCOUNTS, _FORWARDERS, _GATEWAYS, PUBLIC_ADDRESSES, BGP_PEERS}
_RESTRICTED_DOMAIN = "node-restriction.kubernetes.io"
_HOSTNAME = "kubernetes.io/hostname"
_OWN_LABELS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "kubernetes.io/arch",
        _HOSTNAME,
        LABEL_ACCELERATOR,
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
    }
)
# These labels decide about the instances, addresses and traffic of a node. Kubernetes lets a node set its topology;
# here only an administrator or the location of the node's token may.
_PLACE_DOMAINS = ("failure-domain.beta.kubernetes.io", "submariner.io", "topology.datum.net", "topology.kubernetes.io")
_HINT = " (where a node is, is for an administrator or the location of its token to say)"
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
# The server acts on annotations of this domain, and trusts a node only for these.
_PLATFORM_DOMAIN = "tarmac.dev"
# Labels of these domains have a meaning for the platform.
_LABEL_DOMAINS = (_PLATFORM_DOMAIN, "datumapis.com", "node.tarmac")
_OWN_ANNOTATIONS = frozenset({VERSION, TRUSTS, LEAVING, DELETE_DISKS})


class NodeRestriction(AdmissionPlugin):
    """Applies to users of the group `system:nodes`."""

    name = "NodeRestriction"

    def __init__(self, reader: Reader, authorizer: Authorizer, clock: Clock) -> None:
        self._reader = reader
        self._authorizer = authorizer
        self._clock = clock

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in _RESTRICTED

    def admit(self, attributes: Attributes) -> None:
        user = attributes.user
        # As kube-apiserver: only group and name together make a node. With one of them a user has RBAC's rights and no
        # more.
        if "system:nodes" not in user.groups or not user.name.startswith(_PREFIX):
            return
        node = user.name.removeprefix(_PREFIX)
        if not node:
            raise refuse(attributes, f'could not determine node from user "{user.name}"')
        if attributes.resource.bucket in METADATA:
            check_metadata(node, attributes)
        match attributes.resource.bucket:
            case "core/pods":
                self._admit_pod(node, attributes)
            case "core/nodes":
                _admit_node(node, attributes)
            case "core/persistentvolumeclaims":
                if attributes.subresource != "status":
                    raise refuse(attributes, "may only update PVC status")
                only_status(node, attributes)
            case "core/serviceaccounts":
                self._admit_token(node, attributes)
            case "submariner.io/forwarders":
                admit_forwarder(node, attributes)
            case "submariner.io/gateways":
                admit_gateway(node, attributes, self._clock.now())
            case "networking.datumapis.com/publicaddresses":
                admit_public_address(node, attributes, self._reader)
            case "networking.datumapis.com/bgppeers":
                admit_peer(node, attributes, self._reader)
            case "coordination.k8s.io/leases":
                _admit_lease(node, attributes)
            case _:
                pass

    def _pod(self, attributes: Attributes, name: str) -> JsonObject:
        pod = self._reader.get(PODS, f"{attributes.namespace}/{name}")
        if pod is None:
            raise not_found("", "pods", name)
        return pod

    def _admit_pod(self, node: str, attributes: Attributes) -> None:
        operation, subresource = attributes.operation, attributes.subresource
        if subresource == "status":
            # Of the stored pod: the node itself sends the new one, and could put its own name there.
            if (attributes.old or {})["spec"].get("nodeName") != node:
                raise refuse(
                    attributes, f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
                )
            if _labels(attributes.obj) != _labels(attributes.old):
                raise refuse(attributes, f'node "{node}" cannot update labels through pod status')
            only_status(node, attributes, "annotations")
            check_addresses(node, attributes, self._reader)
        elif subresource == "eviction":
            if self._pod(attributes, attributes.name)["spec"].get("nodeName") != node:
                raise refuse(attributes, f"node {node} can only evict pods with spec.nodeName set to itself")
        elif subresource:
            detail = f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed"
            raise refuse(attributes, detail)
        elif operation == "CREATE":
            self._admit_mirror(node, attributes)
        elif operation == "DELETE":
            if self._pod(attributes, attributes.name)["spec"].get("nodeName") != node:
                raise refuse(attributes, f'node "{node}" can only delete pods with spec.nodeName set to itself')
        else:
            detail = f'unexpected operation "{operation}", node "{node}" can only create and delete mirror pods'
            raise refuse(attributes, detail)

    def _admit_mirror(self, node: str, attributes: Attributes) -> None:
        pod = attributes.obj
        assert pod is not None
        if not mirrors(pod):
            detail = f'pod does not have "{MIRROR}" annotation'
            raise refuse(attributes, f'{detail}, node "{node}" can only create mirror pods')
        if pod["spec"].get("nodeName") != node:
            raise refuse(attributes, f'node "{node}" can only create pods with spec.nodeName set to itself')
        owners = pod["metadata"].get("ownerReferences") or []
        if len(owners) != 1 or (owners[0].get("kind"), owners[0].get("name")) != ("Node", node):
            raise refuse(attributes, f'node "{node}" can only create pods with an owner reference set to itself')
        if not owners[0].get("controller"):
            detail = f'node "{node}" can only create pods with a controller owner reference set to itself'
            raise refuse(attributes, detail)
        check_mirror_spec(node, attributes)

    def _admit_token(self, node: str, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource != "token":
            return
        reference = ((attributes.obj or {}).get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("kind") != "Pod" or reference.get("apiVersion") != "v1" or not reference.get("name"):
            raise refuse(attributes, "node requested token not bound to a pod")
        # A name alone would give a token to the node of a deleted pod for the next pod of that name, perhaps on
        # another node.
        if not reference.get("uid"):
            raise refuse(attributes, "node requested token with a pod binding without a uid")
        pod = self._pod(attributes, reference["name"])
        if pod["metadata"]["uid"] != reference["uid"]:
            raise refuse(
                attributes,
                f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. The "
                "object might have been deleted and then recreated",
            )
        if pod["spec"].get("nodeName") != node:
            raise refuse(attributes, "node requested token bound to a pod scheduled on a different node")
        self._check_audience(attributes, pod)

    def _check_audience(self, attributes: Attributes, pod: JsonObject) -> None:
        """Allow an audience that a volume of the pod requests, or that RBAC grants to nodes for this account."""
        spec = (attributes.obj or {}).get("spec") or {}
        asked: list[str] = spec.get("audiences") or [""]
        if len(asked) > 1:
            raise refuse(attributes, "node may only request 0 or 1 audiences")
        audience, place = asked[0], (attributes.namespace, attributes.name)
        if audience in _audiences(pod):
            return
        grant = RequestInfo("request-serviceaccounts-token-audience", "", True, "", "v1", audience, "", *place)
        if not audience or self._authorizer.refuses(attributes.user, grant) is not None:
            raise refuse(attributes, f'audience "{audience}" not found in pod spec volume')


def _audiences(pod: JsonObject) -> set[str]:
    """Return the token audiences of the pod's volumes; "" is the API server itself."""
    volumes = pod["spec"].get("volumes") or ()
    sources = [source for volume in volumes for source in (volume.get("projected") or {}).get("sources") or ()]
    return {token.get("audience") or "" for source in sources if (token := source.get("serviceAccountToken"))}


def _labels(obj: JsonObject | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _annotations(obj: JsonObject | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("annotations") or {}


def _admit_node(node: str, attributes: Attributes) -> None:
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    # The node authorizer lets a node write every Node, since a create has no name in its path: this line is the only
    # check.
    if name != node:
        raise refuse(attributes, f'node "{node}" is not allowed to modify node "{name}"')
    new, old = attributes.obj, attributes.old
    if new is None:
        return
    _check_annotations(node, attributes)
    labels, before = _labels(new), _labels(old)
    changed = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
    hostname = labels.get(_HOSTNAME, node)
    if _HOSTNAME in changed and hostname != node:
        # Pods and disks that choose the other node by this label would come to this one.
        raise refuse(attributes, f"metadata.labels[{_HOSTNAME}]: {hostname!r} must be the node's name, {node!r}")
    refused = sorted(filter(_is_forbidden, changed))
    forbidden = ", ".join(refused) + (_HINT if any(map(_is_place, refused)) else "")
    if old is None:
        if refused:
            raise refuse(attributes, f'node "{node}" is not allowed to set the following labels: {forbidden}')
        return
    if _taints(new) != _taints(old) and not _completes(new, old):
        raise refuse(attributes, f'node "{node}" is not allowed to modify taints')
    if _is_cordoned(new) != _is_cordoned(old):
        # A stolen node would end its own cordon.
        raise refuse(attributes, f'node "{node}" is not allowed to modify spec.unschedulable')
    if refused:
        raise refuse(attributes, f"is not allowed to modify labels: {forbidden}")


def _check_annotations(node: str, attributes: Attributes) -> None:
    new, old = _annotations(attributes.obj), _annotations(attributes.old)
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    refused = sorted(key for key in changed - _OWN_ANNOTATIONS if _is_in(key, (_PLATFORM_DOMAIN,)))
    stated = new.get(ANNOTATION_UNDERLAY_MTU)
    if ANNOTATION_UNDERLAY_MTU in changed and stated is not None and (why := underlay_objection(stated)):
        raise refuse(attributes, f"metadata.annotations[{ANNOTATION_UNDERLAY_MTU}]: {stated[:20]!r} {why}")
    if refused:
        raise refuse(
            attributes,
            f'node "{node}" is not allowed to set, change or remove metadata.annotations[{refused[0]}]: of '
            f"{_PLATFORM_DOMAIN}/* a node writes only {', '.join(sorted(_OWN_ANNOTATIONS))}; leave others alone",
        )


def _taints(node: JsonObject) -> list[JsonObject]:
    return (node.get("spec") or {}).get("taints") or []


def _is_cordoned(node: JsonObject) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _completes(new: JsonObject, old: JsonObject) -> bool:
    """Return True if a node only appends its registration taints to a pre-created Node without a report yet."""
    made_for_it = TOKEN_OF_NODE in (old["metadata"].get("annotations") or {})
    reported = any(((old.get("status") or {}).get("nodeInfo") or {}).values())
    return made_for_it and not reported and _taints(new)[: len(_taints(old))] == _taints(old)


def _is_forbidden(label: str) -> bool:
    if label in _OWN_LABELS:
        return False
    if _is_place(label) or _is_in(label, (_RESTRICTED_DOMAIN, *_LABEL_DOMAINS)):
        return True
    return _is_in(label, ("kubernetes.io", "k8s.io")) and not _is_in(label, _OWN_DOMAINS)


def _is_place(label: str) -> bool:
    return _is_in(label, _PLACE_DOMAINS)


def _is_in(label: str, roots: tuple[str, ...]) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    return any(domain == root or domain.endswith(f".{root}") for root in roots)


def _admit_lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != _LEASE_NAMESPACE:
        raise refuse(attributes, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    if name != node:
        raise refuse(attributes, "can only access node lease with the same name as the requesting node")
