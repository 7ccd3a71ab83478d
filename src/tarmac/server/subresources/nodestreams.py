"""Subresources that connect to a node: logs, exec, attach, port-forward, and the proxies.

The server authorizes the request, finds the node and translates the path to the node's API; `NodeForwarder` carries
the request to the node. A server without nodes has `NoNodes`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tarmac.api.compute.names import ANNOTATION_CONSOLE_RECORDING
from tarmac.api.kubernetes.runtimeclasses import is_simulated
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, ServiceUnavailable
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.reader import Reader
from tarmac.server.routes import Route, Routes
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources import podstreams, proxies
from tarmac.wire.visitors import NOT_RECORDED

_ANY_METHOD = ("get", "create", "update", "patch", "delete")

Answering = Callable[[Request], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PodPort:
    """A port of a pod, and the Host of requests to it."""

    namespace: str
    name: str
    uid: str
    port: int
    host: str


class NodeForwarder(Protocol):
    """Connections to nodes. Every method returns None for a node without a connection."""

    def forward(self, node: str, request: Request, target: str, recorded: bool = True) -> Awaitable[Answer] | None:
        """Forward the request to the node's API at `target`, a path with its query. `recorded`: record the session."""
        ...

    def ask(self, node: str, request: Request, target: str, recorded: bool) -> Awaitable[Answer] | None:
        """Like `forward`, with the node's errors converted to the API server's."""
        ...

    def log(self, node: str, target: str) -> Awaitable[Answer] | None:
        """Fetch a log at `target`, with the node's errors converted to the API server's."""
        ...

    def to_pod(self, node: str, place: PodPort, request: Request, target: str) -> Awaitable[Answer] | None:
        """Forward the request to a port of a pod."""
        ...

    def fetch(self, node: str, target: str, most: int) -> Awaitable[bytes] | None:
        """Fetch the whole response of the node's API at `target`, at most `most` bytes.

        Raises ApiError for any other response.
        """
        ...


class NoNodes:
    """No node is reachable."""

    def forward(self, node: str, request: Request, target: str, recorded: bool = True) -> Awaitable[Answer] | None:
        """Return None."""
        return None

    def ask(self, node: str, request: Request, target: str, recorded: bool) -> Awaitable[Answer] | None:
        """Return None."""
        return None

    def log(self, node: str, target: str) -> Awaitable[Answer] | None:
        """Return None."""
        return None

    def to_pod(self, node: str, place: PodPort, request: Request, target: str) -> Awaitable[Answer] | None:
        """Return None."""
        return None

    def fetch(self, node: str, target: str, most: int) -> Awaitable[bytes] | None:
        """Return None."""
        return None


def log_route(storage: ResourceStorage, connections: NodeForwarder) -> Route:
    """GET of `pods/NAME/log`."""

    def answer(request: Request) -> Answer | Awaitable[Answer]:
        query = podstreams.log_query(request)
        pod = find_object(storage, request.info.namespace, request.info.name)
        container = podstreams.container_of(pod, request.param("container"))
        node = pod["spec"].get("nodeName", "")
        if not node:
            return Response(204, b"", "")  # not scheduled yet, so there is no log
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container}"
        return reached(storage, node, connections.log(node, f"/containerLogs/{place}?{query}"))

    return {"get": answer}


def stream_route(storage: ResourceStorage, connections: NodeForwarder, kind: str) -> Route:
    """exec, attach and portforward of a pod; opening one is a create for every method."""

    def answer(request: Request) -> Awaitable[Answer]:
        pod = find_object(storage, request.info.namespace, request.info.name)
        target = podstreams.TARGETS[kind](request, pod)
        node = _node_of(pod)
        recorded = is_recorded(storage.services.reader, request.info.namespace)
        return reached(storage, node, connections.forward(node, request, target, recorded))

    return {"create": answer}


def node_proxy_route(storage: ResourceStorage, connections: NodeForwarder) -> Route:
    """`nodes/NAME/proxy/…`: the node's own API."""

    def answer(request: Request) -> Awaitable[Answer]:
        _, name, port = proxies.scheme_name_port(request.info.name, "node")
        node = find_object(storage, "", name)
        # Without it the server would be a proxy to every port of the node, and of its loopback interface.
        proxies.check_node_port(node, port)
        return reached(storage, name, connections.forward(name, request, proxies.behind(request)))

    return dict.fromkeys(_ANY_METHOD, answer)


def pod_proxy_route(storage: ResourceStorage, connections: NodeForwarder) -> Route:
    """`pods/[SCHEME:]NAME[:PORT]/proxy/…`: a server in a pod."""

    def answer(request: Request) -> Awaitable[Answer]:
        scheme, name, port = proxies.scheme_name_port(request.info.name, "pod")
        pod = find_object(storage, request.info.namespace, name)
        number = proxies.port_of_pod(pod, port, scheme)
        return _to_pod(storage, connections, request, pod, number)

    return dict.fromkeys(_ANY_METHOD, answer)


def service_proxy_route(routes: Routes, storage: ResourceStorage, connections: NodeForwarder) -> Route:
    """`services/[SCHEME:]NAME[:PORT]/proxy/…`: a server in one of the pods behind a Service."""

    def answer(request: Request) -> Awaitable[Answer]:
        _, name, port = proxies.scheme_name_port(request.info.name, "service")
        service = find_object(storage, request.info.namespace, name)
        pods = partial(find_object, routes.sibling("", "v1", "pods"))
        reader = storage.services.reader
        pod, number = proxies.endpoint_of(service, port, reader, storage.services.randomness, pods)
        return _to_pod(storage, connections, request, pod, number)

    return dict.fromkeys(_ANY_METHOD, answer)


def _to_pod(
    storage: ResourceStorage, connections: NodeForwarder, request: Request, pod: JsonObject, port: int
) -> Awaitable[Answer]:
    metadata, address = pod["metadata"], pod.get("status", {}).get("podIP", "")
    if not address:
        raise BadRequest("address not allowed")
    node = _node_of(pod)
    host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    place = PodPort(metadata["namespace"], metadata["name"], metadata["uid"], port, host)
    return reached(storage, node, connections.to_pod(node, place, request, proxies.behind(request)))


def is_recorded(reader: Reader, namespace: str) -> bool:
    """Return whether console sessions of a namespace are recorded."""
    metadata = (reader.get("core/namespaces", namespace) or {}).get("metadata", {})
    return (metadata.get("annotations") or {}).get(ANNOTATION_CONSOLE_RECORDING) != NOT_RECORDED


def find_object(storage: ResourceStorage, namespace: str, name: str) -> JsonObject:
    """Return the stored object. Raises NotFound."""
    entry = storage.store.get(storage.bucket, storage.key(namespace, name))
    if entry is None:
        raise storage.not_found(name)
    return storage.load(entry)


def _node_of(pod: JsonObject) -> str:
    node = pod["spec"].get("nodeName", "")
    if not node:
        raise BadRequest(f"pod {pod['metadata']['name']} does not have a host assigned")
    return node


def reached(storage: ResourceStorage, node: str, answer: Awaitable[Answer] | None) -> Awaitable[Answer]:
    """Return the response of a node, or reject if it cannot be reached. Raises BadRequest, ServiceUnavailable."""
    if answer is not None:
        return answer
    known = storage.services.reader.get("core/nodes", node) or {}
    if is_simulated(known):
        raise ServiceUnavailable(
            f"no connection to node {node}: it is simulated, and is down, cut off, or not part of a running `tarmac up`"
        )
    raise ServiceUnavailable(f"no connection to node {node}: no agent serves it")
