"""Resolves an instance on the command line, and the paths of its subresources."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from tarmac.api.compute.names import API_VERSION, LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.targets.typed import INSTANCES
from tarmac.client.targets.untyped import PODS
from tarmac.client.websockets import WebSocket, open_websocket

_WORDS = ("instance", "instances", "inst")
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class InstanceEndpoint:
    """An instance, and its server."""

    http: HttpConfig
    namespace: str
    name: str

    def path(self, subresource: str, **query: str) -> str:
        """Return the path of a subresource; empty parameters are left out."""
        given = urlencode({name: value for name, value in query.items() if value})
        home = f"/apis/{API_VERSION}/namespaces/{self.namespace}/instances/{self.name}/{subresource}"
        return f"{home}?{given}" if given else home

    def attach_path(self, keyboard: bool) -> str:
        """Return the console's path on a server without the subresource: a Kubernetes API server with Tarmac's CRDs."""
        flags = [("stdin", "true")] if keyboard else []
        return self.pod_path("attach", [*flags, ("stdout", "true"), ("tty", "true")])

    def pod_path(self, subresource: str, query: list[tuple[str, str]]) -> str:
        """Return the path of a subresource of its Pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/{subresource}?{urlencode(query)}"


async def screen_path(client: Client, place: InstanceEndpoint, view: bool) -> str:
    """Return the display's path on such a server: through the node's proxy. Raises NotFound."""
    pod = await client.resource(PODS).get(place.name, place.namespace)
    node, uid = pod["spec"].get("nodeName", ""), pod["metadata"]["uid"]
    if not node:
        raise NotFound(f'instance "{place.name}" is on no node yet')
    own = f"tarmac/v1/vnc/{place.namespace}/{place.name}/{uid}"
    return f"/api/v1/nodes/{node}/proxy/{own}" + ("?view=true" if view else "")


async def open_screen(client: Client, place: InstanceEndpoint, view: bool) -> WebSocket:
    """Open RFB in a WebSocket; through the node where the server has no subresource. Raises ApiError, ClientError."""
    path = place.path("vnc", view="true" if view else "")
    try:
        return await open_websocket(place.http, path, ["binary"], client.randomness)
    except NotFound:
        path = await screen_path(client, place, view)
        return await open_websocket(place.http, path, ["binary"], client.randomness)


async def find_instance(client: Client, http: HttpConfig, namespace: str, written: str) -> InstanceEndpoint:
    """Resolve `NAME`, `instance/NAME`, or a Workload with one instance. Raises BadObject and NotFound."""
    kind, slash, name = written.rpartition("/")
    if (slash and kind not in _WORDS) or not name:
        raise BadObject(f"{written!r} names no instance; write NAME or instance/NAME")
    instances = client.resource(INSTANCES.typed(dict))
    try:
        await instances.get(name, namespace)
    except NotFound:
        name = _only((await instances.list(namespace, labels=f"{LABEL_WORKLOAD_NAME}={name}")).items, name)
    return InstanceEndpoint(http, namespace, name)


def _only(found: list[JsonObject], workload: str) -> str:
    names = sorted(each["metadata"]["name"] for each in found)
    if len(names) == 1:
        return names[0]
    if not names:
        raise NotFound(f'instances "{workload}" not found, and no Workload of this name has any')
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    raise BadObject(f"workload {workload} has {len(names)} instances; name one: {', '.join(names[:_MAX_NAMED])}{more}")
