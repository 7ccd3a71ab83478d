"""May this user do that? The one question, asked of everybody in turn.

    authorizer.refuses(user, info, query)    None, or why not: the hot path, a cached answer
    authorizer.decide(user, info, query)     answer and reason, for reviews
    refusal(user, info, why)                 the 403 to send

Members of system:masters may do everything. The node authorizer looks at nodes, RBAC at everybody; one yes is enough.
`query` is the raw query string: nodes may list pods only with a field selector for their own.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.status import Forbidden, forbidden
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.nodeauthorizer import NodeAuthorizer, node_name
from tarmac.server.security.nodegraph import NodeGraph
from tarmac.server.security.rbac import Rbac
from tarmac.server.security.rules import Rule
from tarmac.server.security.users import User
from tarmac.store.interface import Store

MASTERS = "system:masters"


class Decision(NamedTuple):
    """An answer and, where there is one, its reason."""

    allowed: bool
    reason: str


class Authorizer:
    """Everybody in turn."""

    def __init__(self, store: Store) -> None:
        self.rbac = Rbac(store)
        self._graph = NodeGraph(store)
        self._nodes = NodeAuthorizer(self._graph)

    def start(self) -> None:
        """Load policy and follow it. Call once the store has started."""
        self.rbac.start()
        self._graph.start()

    def stop(self) -> None:
        """Follow no longer."""
        self.rbac.stop()
        self._graph.stop()

    def refuses(self, user: User, info: RequestInfo, query: str = "") -> str | None:
        """None when the user may do it, else why not (perhaps empty)."""
        if MASTERS in user.groups:
            return None
        node = node_name(user)
        if node and self._nodes.refuses(node, info, query) is None:
            return None
        return None if self.rbac.allows(user, info) else self.decide(user, info, query).reason

    def decide(self, user: User, info: RequestInfo, query: str = "") -> Decision:
        """As `allows`, with the reason."""
        if MASTERS in user.groups:
            return Decision(True, "")
        node_refusal = self._node_refusal(user, info, query)
        if node_refusal is None:
            return Decision(True, "")
        reasons = [reason for reason in (node_refusal, self.rbac.reason(user, info)) if reason]
        if self.rbac.allows(user, info):
            return Decision(True, reasons[-1])
        return Decision(False, "\n".join(reasons))

    def rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Every rule that RBAC has for the user in a namespace (empty: cluster-wide ones only)."""
        return self.rbac.rules_for(user, namespace)

    def _node_refusal(self, user: User, info: RequestInfo, query: str) -> str | None:
        node = node_name(user)
        if node is None:
            return ""
        return self._nodes.refuses(node, info, query) if node else f'unknown node for user "{user.name}"'


def refusal(user: User, info: RequestInfo, why: str = "") -> Forbidden:
    """The 403, worded as Kubernetes words it."""
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
