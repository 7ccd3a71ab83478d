"""NodeRestriction: a node changes itself and what runs on it, and nothing else.

The node authorizer decides what a node may read and which verbs it has; this looks into the objects it writes.
"""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import not_found
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET as PODS
from tarmac.server.admission.pods import is_mirror
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_PREFIX = "system:node:"
_NODES = "core/nodes"
_CLAIMS = "core/persistentvolumeclaims"
_ACCOUNTS = "core/serviceaccounts"
_LEASES = "coordination.k8s.io/leases"
_LEASE_NAMESPACE = "kube-node-lease"
_RESTRICTED_DOMAIN = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")


class NodeRestriction(Plugin):
    """Applies to users of the group `system:nodes`."""

    name = "NodeRestriction"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        return resource.bucket in (PODS, _NODES, _CLAIMS, _ACCOUNTS, _LEASES)

    def admit(self, attributes: Attributes) -> None:
        user = attributes.user
        if "system:nodes" not in user.groups or not user.name.startswith(_PREFIX):
            return
        node = user.name.removeprefix(_PREFIX)
        if not node:
            raise refuse(attributes, f'could not determine node from user "{user.name}"')
        match attributes.resource.bucket:
            case "core/pods":
                self._admit_pod(node, attributes)
            case "core/nodes":
                _admit_node(node, attributes)
            case "core/persistentvolumeclaims":
                if attributes.subresource != "status":
                    raise refuse(attributes, "may only update PVC status")
            case "core/serviceaccounts":
                self._admit_token(node, attributes)
            case _:
                _admit_lease(node, attributes)

    def _pod(self, attributes: Attributes, name: str) -> JsonObject:
        pod = self._reader.get(PODS, f"{attributes.namespace}/{name}")
        if pod is None:
            raise not_found("", "pods", name)
        return pod

    def _admit_pod(self, node: str, attributes: Attributes) -> None:
        operation, subresource = attributes.operation, attributes.subresource
        if subresource == "status":
            if (attributes.old or {})["spec"].get("nodeName") != node:
                raise refuse(
                    attributes, f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
                )
            if _labels(attributes.obj) != _labels(attributes.old):
                raise refuse(attributes, f'node "{node}" cannot update labels through pod status')
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
        if not is_mirror(pod):
            detail = 'pod does not have "kubernetes.io/config.mirror" annotation'
            raise refuse(attributes, f'{detail}, node "{node}" can only create mirror pods')
        if pod["spec"].get("nodeName") != node:
            raise refuse(attributes, f'node "{node}" can only create pods with spec.nodeName set to itself')
        owners = pod["metadata"].get("ownerReferences") or []
        if len(owners) != 1 or (owners[0].get("kind"), owners[0].get("name")) != ("Node", node):
            raise refuse(attributes, f'node "{node}" can only create pods with an owner reference set to itself')
        if not owners[0].get("controller"):
            detail = f'node "{node}" can only create pods with a controller owner reference set to itself'
            raise refuse(attributes, detail)

    def _admit_token(self, node: str, attributes: Attributes) -> None:
        if attributes.operation != "CREATE" or attributes.subresource != "token":
            return
        reference = ((attributes.obj or {}).get("spec") or {}).get("boundObjectRef") or {}
        if reference.get("kind") != "Pod" or reference.get("apiVersion") != "v1" or not reference.get("name"):
            raise refuse(attributes, "node requested token not bound to a pod")
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


def _labels(obj: JsonObject | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _admit_node(node: str, attributes: Attributes) -> None:
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    if name != node:
        raise refuse(attributes, f'node "{node}" is not allowed to modify node "{name}"')
    new, old = attributes.obj, attributes.old
    if new is None:
        return
    labels, before = _labels(new), _labels(old)
    changed = {key for key in labels.keys() | before.keys() if labels.get(key) != before.get(key)}
    forbidden = ", ".join(sorted(filter(_is_forbidden, changed)))
    if old is None:
        if forbidden:
            raise refuse(attributes, f'node "{node}" is not allowed to set the following labels: {forbidden}')
        return
    if (new.get("spec") or {}).get("taints") != (old.get("spec") or {}).get("taints"):
        raise refuse(attributes, f'node "{node}" is not allowed to modify taints')
    if new["metadata"].get("ownerReferences") != old["metadata"].get("ownerReferences"):
        raise refuse(attributes, f'node "{node}" is not allowed to modify ownerReferences')
    if forbidden:
        raise refuse(attributes, f"is not allowed to modify labels: {forbidden}")


def _is_forbidden(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if domain == _RESTRICTED_DOMAIN or domain.endswith(f".{_RESTRICTED_DOMAIN}"):
        return True
    system = any(domain == root or domain.endswith(f".{root}") for root in ("kubernetes.io", "k8s.io"))
    own = any(domain == root or domain.endswith(f".{root}") for root in _OWN_DOMAINS)
    return system and not own and label not in _OWN_LABELS


def _admit_lease(node: str, attributes: Attributes) -> None:
    if attributes.namespace != _LEASE_NAMESPACE:
        raise refuse(attributes, f'can only access leases in the "{_LEASE_NAMESPACE}" system namespace')
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("name", "")
    if name != node:
        raise refuse(attributes, "can only access node lease with the same name as the requesting node")
