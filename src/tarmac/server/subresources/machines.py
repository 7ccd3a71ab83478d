"""Subresources that lead into a virtual machine: `instances/NAME/{console,vnc,power,recordings}`.

The server finds the Pod that stands behind the Instance and the node it is on, says for whom it asks and whether that
is recorded, and hands the request on. What the node refuses becomes a Status.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final
from urllib.parse import urlencode

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, ServiceUnavailable
from tarmac.base.clock import parse_rfc3339
from tarmac.http.messages import Answer, Request
from tarmac.server.reader import Reader
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.connections import NodeConnections, find_object, is_recorded, reached

PARAMETERS: Final = {
    "console": ("stdin", "takeover", "since"),
    "vnc": ("view", "takeover"),
    "power": (),
    "recordings": ("session",),
}
_VERBS: Final = {"recordings": "get"}  # opening a stream is a create whatever the method, and so is pressing a button


def machine_route(served: ResourceStorage, connections: NodeConnections, place: str) -> Route:
    """One of them."""

    def answer(request: Request) -> Awaitable[Answer]:
        info, reader = request.info, served.services.reader
        instance = find_object(served, info.namespace, info.name)
        if not instance["spec"].get("runtime", {}).get("virtualMachine"):
            raise BadRequest(f'instance "{info.name}" is not a virtual machine')
        pod = _pod_of(reader, instance)
        query = [(name, request.param(name)) for name in PARAMETERS[place] if request.param(name)]
        if place == "recordings":
            query.append(("after", str(_made_at(reader, info.namespace))))
        target = f"/tarmac/v1/{place}/{info.namespace}/{info.name}/{pod['metadata']['uid']}?{urlencode(query)}"
        node: str = pod["spec"]["nodeName"]
        recorded = is_recorded(reader, info.namespace)
        return reached(served, node, connections.ask(node, request, target, recorded))

    return {_VERBS.get(place, "create"): answer}


def _made_at(reader: Reader, namespace: str) -> int:
    """When a namespace was made: who had one of this name before is none of its owner's business."""
    found = reader.get("core/namespaces", namespace)
    return int(parse_rfc3339(found["metadata"]["creationTimestamp"])) if found is not None else 0


def _pod_of(reader: Reader, instance: JsonObject) -> JsonObject:
    """The Pod behind an Instance, once it has a node. Raises ServiceUnavailable."""
    metadata = instance["metadata"]
    pod = reader.get("core/pods", f"{metadata['namespace']}/{metadata['name']}")
    owners = (pod or {}).get("metadata", {}).get("ownerReferences") or ()
    # Somebody may have made a Pod of this name: that is not what was asked for.
    if pod is None or all(each["uid"] != metadata["uid"] for each in owners):
        raise ServiceUnavailable(f'instance "{metadata["name"]}" has no Pod yet: see `tarmac why`')
    if not pod["spec"].get("nodeName"):
        raise ServiceUnavailable(f'instance "{metadata["name"]}" is on no node yet: see `tarmac why`')
    return pod
