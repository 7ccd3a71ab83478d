"""`externalservices/NAME/connections`: live connections, joined from nodes' reports by `decide/egress/connections`."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from tarmac.api.checks import mapping
from tarmac.api.egress.connections import MAX_CONNECTIONS, NODE_PATH, ExternalConnections, NodeConnections
from tarmac.api.egress.names import API_VERSION, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError
from tarmac.decide.egress.connections import Relays, gateways_of, joined, relays_of
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.reader import Reader
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.nodestreams import NodeForwarder

_FORWARDERS, _GATEWAYS = "submariner.io/forwarders", "submariner.io/gateways"
_MAX_REPORT = 2 * 1024 * 1024  # bytes of a node's response
_read = msgspec.json.Decoder(NodeConnections).decode


def external_connections_route(storage: ResourceStorage, nodes: NodeForwarder) -> Route:
    """GET of `externalservices/NAME/connections`."""
    return {"get": partial(_answer, storage, nodes)}


async def _answer(storage: ResourceStorage, nodes: NodeForwarder, request: Request) -> Response:
    info, reader = request.info, storage.services.reader
    if storage.store.get(storage.bucket, storage.key(info.namespace, info.name)) is None:
        raise storage.not_found(info.name)
    relays = _relays(reader, info.namespace, info.name)
    path = NODE_PATH.format(namespace=info.namespace, name=info.name)
    answers = await asyncio.gather(*(_ask(nodes, node, path) for node in relays.nodes))
    told = {node: answer for node, answer in zip(relays.nodes, answers, strict=True) if answer is not None}
    found = joined(told, relays)
    # A node's report is its word: connections of pods that do not run on it are left out.
    known = [shown for said, shown in found if _is_on(reader.get("core/pods", said.pod), said.uid, shown.node)]
    more = len(known) > MAX_CONNECTIONS or any(each.more for each in told.values())
    silent = [node for node in relays.nodes if node not in told]
    answer = ExternalConnections(known[:MAX_CONNECTIONS], more, silent)
    return document(request, {"kind": "ExternalConnections", "apiVersion": API_VERSION, **msgspec.to_builtins(answer)})


def _is_on(pod: JsonObject | None, uid: str, node: str) -> bool:
    """Return whether the pod has this uid and runs on the reporting node."""
    return mapping(pod, "metadata").get("uid") == uid and mapping(pod, "spec").get("nodeName") == node


async def _ask(nodes: NodeForwarder, node: str, path: str) -> NodeConnections | None:
    """Return a node's report; None when the node cannot be reached or its report cannot be decoded."""
    answer = nodes.fetch(node, path, _MAX_REPORT)
    try:
        return _read(await answer) if answer is not None else None
    except (ApiError, UnicodeError, msgspec.MsgspecError):
        return None


def _relays(reader: Reader, namespace: str, name: str) -> Relays:
    # Neither name can contain a dot, so the prefix is unambiguous.
    forwarders = list(reader.list(_FORWARDERS, f"{NAMESPACE}/{namespace}.{name}."))
    found = (reader.get(_GATEWAYS, f"{NAMESPACE}/{address}") for address in sorted(gateways_of(forwarders)))
    return relays_of(forwarders, [each for each in found if each is not None])
