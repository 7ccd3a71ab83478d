"""Authorization: combines system:masters, the node authorizer and RBAC.

    authorizer.refuses(user, info, query)    None, or the reason: the hot path, a cached answer
    authorizer.decide(user, info, query)     answer and reason, for reviews
    refusal(user, info, why)                 the 403 to send

Members of system:masters may do everything. The node authorizer checks nodes, RBAC checks all users; one approval is
enough. `query` is the raw query string: nodes may list pods only with a field selector for their own.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.status import Forbidden, forbidden
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.nodeauthorizer import NodeAuthorizer, node_name
from tarmac.server.security.authorization.nodegraph import NodeGraph
from tarmac.server.security.authorization.peersecrets import PeerSecrets
from tarmac.server.security.authorization.rbac import Rbac
from tarmac.server.security.authorization.rules import PolicyRule
from tarmac.server.security.users import User
from tarmac.store.interface import Store

MASTERS = "system:masters"


class Decision(NamedTuple):
    """A decision and, if there is one, its reason."""

    allowed: bool
    reason: str


class Authorizer:
    """Asks the node authorizer and RBAC in turn."""

    def __init__(self, store: Store) -> None:
        self.rbac = Rbac(store)
        self._graph = NodeGraph(store)
        self._nodes = NodeAuthorizer(self._graph, PeerSecrets(store))

    def start(self) -> None:
        """Load the policy and subscribe to its changes. Call once the store has started."""
        self.rbac.start()
        self._graph.start()

    def stop(self) -> None:
        """Unsubscribe from changes."""
        self.rbac.stop()
        self._graph.stop()

    def refuses(self, user: User, info: RequestInfo, query: str = "") -> str | None:
        """Return None if the request is allowed, else the reason (possibly empty)."""
        if MASTERS in user.groups:
            # Without any policy: the cluster stays repairable when its roles are lost. Impersonation needs a right to
            # this group.
            return None
        node = node_name(user)
        if node and self._nodes.refuses(node, info, query) is None:
            return None
        return None if self.rbac.allows(user, info) else self.decide(user, info, query).reason

    def decide(self, user: User, info: RequestInfo, query: str = "") -> Decision:
        """Return the decision with its reason, for a permitted request too."""
        if MASTERS in user.groups:
            return Decision(True, "")
        node_refusal = self._node_refusal(user, info, query)
        if node_refusal is None:
            return Decision(True, "")
        reasons = [reason for reason in (node_refusal, self.rbac.reason(user, info)) if reason]
        if self.rbac.allows(user, info):
            return Decision(True, reasons[-1])
        return Decision(False, "\n".join(reasons))

    def rules_for(self, user: User, namespace: str) -> list[PolicyRule]:
        """Return all RBAC rules for the user in a namespace (empty: cluster-wide rules only)."""
        return self.rbac.rules_for(user, namespace)

    def _node_refusal(self, user: User, info: RequestInfo, query: str) -> str | None:
        node = node_name(user)
        if node is None:
            return ""
        return self._nodes.refuses(node, info, query) if node else f'unknown node for user "{user.name}"'


def refusal(user: User, info: RequestInfo, why: str = "") -> Forbidden:
    """Build the 403 with Kubernetes' wording."""
    text = f"{_what(user, info)}: {why}" if why else _what(user, info)
    if info.is_resource:
        made = forbidden(info.group, info.resource, info.name, text)
    else:
        made = Forbidden(f"forbidden: {text}", details={})
    made.headers = [("X-Content-Type-Options", "nosniff")]
    return made


def _what(user: User, info: RequestInfo) -> str:
    if not info.is_resource:
        return f'User "{user.name}" cannot {info.verb} path "{info.path}"'
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    scope = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
    return f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group "{info.group}" {scope}'
