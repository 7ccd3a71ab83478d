"""Subresources that lead to a node: logs, exec, attach, port-forward, and the proxies.

The server knows who may use them and which node is meant; the way there is a `NodeConnections`, which a server without
nodes does not have.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Protocol

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, ServiceUnavailable
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.routes import Route
from tarmac.server.storage.served import Served

_ANY_METHOD = ("get", "create", "update", "patch", "delete")


class NodeConnections(Protocol):
    """Ways to nodes."""

    def forward(self, node: str, request: Request, obj: JsonObject) -> Answer | Awaitable[Answer] | None:
        """Let the node answer; None when there is no connection to it. `obj` is the pod, node or service of the URL."""
        ...


class NoConnections:
    """No node is within reach."""

    def forward(self, node: str, request: Request, obj: JsonObject) -> Answer | Awaitable[Answer] | None:
        """There is no way."""
        return None


def connection_route(served: Served, connections: NodeConnections) -> Route:
    """Whatever the method, the answer is the node's."""
    return dict.fromkeys(_ANY_METHOD, partial(_connect, served, connections))


def _connect(served: Served, connections: NodeConnections, request: Request) -> Answer | Awaitable[Answer]:
    info = request.info
    entry = served.store.get(served.bucket, served.key(info.namespace, info.name))
    if entry is None:
        raise served.not_found(info.name)
    obj = served.load(entry)
    if info.subresource == "log" and not obj["spec"].get("nodeName"):
        return Response(204, b"", "")  # nothing has run, so nothing was said
    node = _node_of(served.resource.kind, obj)
    answer = connections.forward(node, request, obj)
    if answer is None:
        where = f"node {node}" if node else f"{served.resource.singular} {info.name}"
        raise ServiceUnavailable(f"no connection to {where}: no agent serves it")
    return answer


def _node_of(kind: str, obj: JsonObject) -> str:
    if kind == "Node":
        return obj["metadata"]["name"]
    if kind != "Pod":
        return ""
    node = obj["spec"].get("nodeName", "")
    if not node:
        raise BadRequest(f"pod {obj['metadata']['name']} does not have a host assigned")
    return node
