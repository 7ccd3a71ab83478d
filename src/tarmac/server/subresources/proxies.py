"""Resolves proxied paths to a port of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, NotFound, ServiceUnavailable
from tarmac.base.digits import port_number
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Request
from tarmac.server.reader import Reader

_SERVICE_NAME = "kubernetes.io/service-name"
_SCHEMES = ("", "http", "https")
_SAFE = "/:@!$&'()*+,;=~-._"


def scheme_name_port(text: str, what: str) -> tuple[str, str, str]:
    """Split NAME, NAME:PORT or SCHEME:NAME:PORT. Raises BadRequest."""
    parts = text.split(":")
    if len(parts) <= 2:
        parts = ["", *parts, ""][:3]
    if len(parts) != 3 or parts[0] not in _SCHEMES or not parts[1]:
        raise BadRequest(f'invalid {what} request "{text}"')
    return parts[0], parts[1], parts[2]


def behind(request: Request) -> str:
    """Return the path and query after `…/proxy`."""
    info = request.info
    _, _, rest = request.path.partition(f"/{info.name}/proxy")
    # A decoded space or line break would end the request line: a client could smuggle a second request to the pod.
    path = quote(rest, safe=_SAFE) or "/"  # the request's path is decoded
    return f"{path}?{request.query}" if request.query else path


def check_node_port(node: JsonObject, port: str) -> None:
    """Reject any port but the one of the node's API. Raises BadRequest."""
    own = node.get("status", {}).get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
    if port and port != str(own):
        raise BadRequest(f"port {port} is not the node's own API, the only one that is proxied")


def port_of_pod(pod: JsonObject, port: str, scheme: str) -> int:
    """Return the given port, or the first one that the pod declares, or 80. Raises BadRequest."""
    if scheme == "https":
        raise BadRequest("pods are proxied over http only")
    declared = [each for container in pod["spec"]["containers"] for each in container.get("ports") or ()]
    if not port:
        return declared[0]["containerPort"] if declared else 80
    named = [each["containerPort"] for each in declared if each.get("name") == port]
    if named:
        return named[0]
    number = port_number(port)
    if number is None:
        raise BadRequest(f'invalid port "{port}"')
    return number


def endpoint_of(
    service: JsonObject, port: str, reader: Reader, randomness: Randomness, pod: Callable[[str, str], JsonObject]
) -> tuple[JsonObject, int]:
    """Return a pod behind a service port, and the port of the pod. Raises ServiceUnavailable."""
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    if port.isdecimal():
        ports = [each for each in service["spec"].get("ports") or () if each["port"] == port_number(port)]
        if not ports:
            raise ServiceUnavailable(f'no service port {port} found for service "{name}"')
        port = ports[0].get("name", "")
    found = list(_endpoints(reader, namespace, name, port))
    while found:
        target, number = chosen = randomness.choice(found)
        try:
            return pod(namespace, target), number
        except NotFound:  # deleted meanwhile
            # EndpointSlices lag behind Pods: the one that was chosen may be gone already.
            found.remove(chosen)
    raise ServiceUnavailable(f'no endpoints available for service "{name}"')


def _endpoints(reader: Reader, namespace: str, service: str, port: str) -> Iterator[tuple[str, int]]:
    """Yield the names of ready pods with their ports."""
    for part in reader.list("discovery.k8s.io/endpointslices", f"{namespace}/"):
        if (part["metadata"].get("labels") or {}).get(_SERVICE_NAME) != service:
            continue
        numbers = [each.get("port") for each in part.get("ports") or () if (each.get("name") or "") == port]
        for endpoint in part.get("endpoints") or ():
            target = endpoint.get("targetRef") or {}
            ready = (endpoint.get("conditions") or {}).get("ready", True)
            if numbers and numbers[0] and ready and target.get("kind") == "Pod":
                yield target["name"], numbers[0]
