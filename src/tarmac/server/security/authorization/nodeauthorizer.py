"""Authorizes nodes: they may read the objects that their pods refer to, and write their own objects.

A node is a user named `system:node:<name>` in the group `system:nodes`. Where the path alone does not tell which node
owns an object (the name inside a created Node, the node a pod is bound to), the NodeRestriction admission plugin
inspects the object, as in Kubernetes. Beyond Kubernetes, a node may watch and release the volumes with a disk on it,
watch its Forwarders, and read the passwords of its BGPPeers. Every answer is None (allowed) or the reason why the node
authorizer does not allow the request; RBAC may still allow it.
"""

from __future__ import annotations

from tarmac.api.compute.names import LABEL_DISK_NODE
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.egress.names import LABEL_NODE, node_label
from tarmac.base.selectors import FieldSelector
from tarmac.http.messages import parse_query
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.nodegraph import NodeGraph
from tarmac.server.security.authorization.peersecrets import PeerSecrets
from tarmac.server.security.authorization.policy import NODE_RULES
from tarmac.server.security.authorization.rules import PolicyRule
from tarmac.server.security.users import User

_PREFIX = "system:node:"
_READS = ("get", "list", "watch")
_OWN_VERBS = ("get", "create", "update", "patch", "delete")
_REFUSED = ""


def node_name(user: User) -> str | None:
    """Return the node's name, "" for a member of system:nodes without a node's user name, None for other users."""
    if "system:nodes" not in user.groups:
        return None
    return user.name.removeprefix(_PREFIX) if user.name.startswith(_PREFIX) else ""


class NodeAuthorizer:
    """Authorizes requests of nodes, using the graph of objects that their pods refer to."""

    def __init__(self, graph: NodeGraph, peers: PeerSecrets) -> None:
        self._graph, self._peers = graph, peers
        self._rules = [PolicyRule(rule) for rule in NODE_RULES]
        self._subdivided = {
            ("", "secrets"): self._read_referenced,
            ("", "configmaps"): self._read_referenced,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._volume,
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            (SUBMARINER, "forwarders"): self._forwarder,
        }

    def refuses(self, node: str, info: RequestInfo, query: str = "") -> str | None:
        """Return None if the request is allowed, else the reason (possibly empty)."""
        if info.is_resource:
            subdivided = self._subdivided.get((info.group, info.resource))
            if subdivided is not None:
                return subdivided(node, info, query)
        return None if any(rule.matches(info) for rule in self._rules) else _REFUSED

    def _read_referenced(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb not in _READS:
            return "can only read resources of this type"
        if info.subresource:
            return "cannot read subresource"
        if not info.namespace:
            return "can only read namespaced object of this type"
        return self._referenced(node, info)

    def _referenced(self, node: str, info: RequestInfo) -> str | None:
        if not info.name:
            return "No Object name found"
        # Visible pods, as of this server: a node that learned of its pod from a server ahead of it may be refused, and
        # retries.
        if self._graph.refers_to(node, info.resource, info.namespace, info.name):
            return None
        if info.resource == "secrets" and self._peers.needed_by(node, info.namespace, info.name):
            return None
        return _unrelated(node)

    def _claim(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.subresource == "status":
            if info.verb not in ("update", "patch"):
                return "can only get/update/patch this type"
            return self._referenced(node, info)
        return _only_get(info) or self._referenced(node, info)

    def _volume(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb in ("list", "watch") and _selects_disks(query, node):
            return None
        if info.verb == "patch" and not info.subresource and self._graph.has_disk(node, info.name):
            return None
        refusal = _only_get(info)
        if refusal:
            return refusal
        return None if self._graph.uses_volume(node, info.name) else _unrelated(node)

    def _service_account(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb == "get" and not info.subresource:
            return self._read_referenced(node, info, query)
        if info.verb != "create" or not info.name:
            return "can only create tokens for individual service accounts"
        if info.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return self._referenced(node, info)

    def _node(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.subresource == "status":
            return None if info.verb in ("update", "patch") else _REFUSED
        if info.subresource:
            return _REFUSED
        # For any name: a created object has none in its path. The NodeRestriction plugin compares it.
        if info.verb in ("create", "update", "patch"):
            return None
        if info.verb not in _READS:
            return _REFUSED
        if not info.name:
            return f"node '{node}' cannot read all nodes, only its own Node object"
        return None if info.name == node else f"node '{node}' cannot read '{info.name}', only its own Node object"

    def _pod(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.subresource == "status":
            return None if info.verb in ("update", "patch") else _REFUSED
        if info.subresource == "eviction":
            return None if info.verb == "create" else _REFUSED
        if info.subresource or info.verb not in (*_READS, "create", "delete"):
            return _REFUSED
        return None if info.verb in ("create", "delete") else self._read_pod(node, info, query)

    def _read_pod(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb != "get" and _selects_node(query, node):
            return None
        if info.name:
            return None if self._graph.runs_pod(node, info.namespace, info.name) else _unrelated(node)
        return "can only list/watch pods with spec.nodeName field selector"

    def _forwarder(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb in ("list", "watch") and not info.subresource and _selects_forwarders(query, node):
            return None
        return "can only list/watch forwarders with the label selector of its own name"

    def _lease(self, node: str, info: RequestInfo, query: str) -> str | None:
        if info.verb not in _OWN_VERBS:
            return "can only get, create, update, patch, or delete a node lease"
        if info.namespace != "kube-node-lease":
            return 'can only access leases in the "kube-node-lease" system namespace'
        if info.verb != "create" and info.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None


def _only_get(info: RequestInfo) -> str | None:
    if info.verb != "get":
        return "can only get individual resources of this type"
    return "cannot get subresource" if info.subresource else None


def _unrelated(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"


def _selects_disks(query: str, node: str) -> bool:
    """Return True if the query selects only volumes with a disk on the node."""
    return _only(query, "labelSelector") == f"{LABEL_DISK_NODE}={node}"


def _selects_forwarders(query: str, node: str) -> bool:
    """Return True if the query selects only Forwarders of the node."""
    return _only(query, "labelSelector") == f"{LABEL_NODE}={node_label(node)}"


def _selects_node(query: str, node: str) -> bool:
    try:
        return FieldSelector.parse(_only(query, "fieldSelector")).exact("spec.nodeName") == node
    except ValueError:
        return False


def _only(query: str, name: str) -> str:
    """Return the value of a parameter that occurs exactly once, else "".

    Listing uses the first of several values; authorization must not depend on which one counts.
    """
    values = parse_query(query).get(name, [])
    # Two values fail closed: the selector that authorization reads must be the one that the list applies.
    return values[0] if len(values) == 1 else ""
