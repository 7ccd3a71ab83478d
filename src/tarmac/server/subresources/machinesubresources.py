"""Subresources of a virtual machine: `instances/NAME/{console,vnc,power,recordings}`.

The server finds the Pod of the Instance and its node, adds the user and whether the session is recorded, and forwards
the request. Errors of the node become a Status. Stop and Start do not go to a node: they are written to the Instance,
and its controller deletes the Pod or creates one.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, get_args
from urllib.parse import urlencode

import msgspec

from tarmac.api.compute.machineaccess import PowerAction
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Conflict, ServiceUnavailable
from tarmac.base.clock import parse_rfc3339
from tarmac.http.messages import Answer, Request, Response
from tarmac.server.encoding import encode_json
from tarmac.server.reader import Reader
from tarmac.server.routes import Route
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import rewrite, rules_of
from tarmac.server.subresources.nodestreams import NodeForwarder, find_object, is_recorded, reached
from tarmac.store.interface import Entry

PARAMETERS: Final = {
    "console": ("stdin", "takeover", "since"),
    "vnc": ("view", "takeover"),
    "power": (),
    "recordings": ("session",),
}
_RUNNING: Final = {"Stop": False, "Start": True}
_VERBS: Final = {"recordings": "get"}  # opening a stream is a create for every method, and so is a power action


def machine_route(storage: ResourceStorage, connections: NodeForwarder, place: str) -> Route:
    """Return the route of one of these subresources."""

    def answer(request: Request) -> Awaitable[Answer]:
        info, reader = request.info, storage.services.reader
        instance = find_object(storage, info.namespace, info.name)
        if not instance["spec"].get("runtime", {}).get("virtualMachine"):
            raise BadRequest(f'instance "{info.name}" is not a virtual machine')
        action = _action(request) if place == "power" and request.method == "POST" else ""
        if action in _RUNNING:
            return _switch(storage, request, action)
        pod = _pod_of(reader, instance)
        query = [(name, request.param(name)) for name in PARAMETERS[place] if request.param(name)]
        if place == "recordings":
            query.append(("after", str(_made_at(reader, info.namespace))))
        target = f"/tarmac/v1/{place}/{info.namespace}/{info.name}/{pod['metadata']['uid']}?{urlencode(query)}"
        node: str = pod["spec"]["nodeName"]
        recorded = is_recorded(reader, info.namespace)
        return reached(storage, node, connections.ask(node, request, target, recorded))

    return {_VERBS.get(place, "create"): answer}


class _Power(msgspec.Struct):
    action: PowerAction


def _action(request: Request) -> str:
    """Return the requested power action. Raises BadRequest."""
    try:
        return msgspec.json.decode(request.body, type=_Power).action
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequest(f"action: must be one of {', '.join(get_args(PowerAction))}: {error}") from error


async def _switch(storage: ResourceStorage, request: Request, action: str) -> Answer:
    def change(_: JsonObject, entry: Entry) -> JsonObject:
        new = storage.load(entry)
        new["spec"]["runtime"]["virtualMachine"]["running"] = _RUNNING[action]
        return new

    await rewrite(WriteCall(storage, request, write_options("UpdateOptions", request)), change, rules_of(storage))
    return Response(200, encode_json({"action": action}))


def _made_at(reader: Reader, namespace: str) -> int:
    """Return the creation time of a namespace: recordings of an earlier namespace of that name must stay hidden."""
    found = reader.get("core/namespaces", namespace)
    return int(parse_rfc3339(found["metadata"]["creationTimestamp"])) if found is not None else 0


def _pod_of(reader: Reader, instance: JsonObject) -> JsonObject:
    """Return the Pod of an Instance, once it has a node. Raises Conflict, ServiceUnavailable."""
    metadata = instance["metadata"]
    pod = reader.get("core/pods", f"{metadata['namespace']}/{metadata['name']}")
    owners = (pod or {}).get("metadata", {}).get("ownerReferences") or ()
    # A user may have created a Pod of this name: accept only one owned by the Instance.
    if pod is None and not instance["spec"]["runtime"]["virtualMachine"].get("running", True):
        raise Conflict(f'instance "{metadata["name"]}" is stopped: start it with `tarmac machine start`')
    if pod is None or all(each["uid"] != metadata["uid"] for each in owners):
        raise ServiceUnavailable(f'instance "{metadata["name"]}" has no Pod yet: see `tarmac why`')
    if not pod["spec"].get("nodeName"):
        raise ServiceUnavailable(f'instance "{metadata["name"]}" is on no node yet: see `tarmac why`')
    return pod
