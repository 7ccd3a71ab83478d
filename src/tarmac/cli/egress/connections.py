"""The live connections of an ExternalService, joined by the server.

A Kubernetes API server with Tarmac's CRDs does not join them: there the client reads each node through its proxy, if
permitted.
"""

from __future__ import annotations

import asyncio

import msgspec

from tarmac.api.egress.connections import NODE_PATH, ExternalConnection, ExternalConnections, NodeConnections
from tarmac.api.egress.names import LABEL_EXTERNAL_SERVICE, LABEL_NAMESPACE, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import JSON_ONLY, Client
from tarmac.client.targets.typed import EXTERNAL_SERVICES, FORWARDERS, GATEWAYS
from tarmac.decide.egress.connections import gateways_of, joined, relays_of

_read = msgspec.json.Decoder(ExternalConnections).decode
_read_node = msgspec.json.Decoder(NodeConnections).decode


async def live_connections(client: Client, namespace: str, name: str) -> list[ExternalConnection]:
    """Return the present connections. Raises ApiError, ClientError."""
    try:
        reply = await client.call("GET", EXTERNAL_SERVICES.path(namespace, name, "connections"), headers=JSON_ONLY)
    except NotFound:  # of the subresource: the object itself was found before
        return await _from_nodes(client, namespace, name)
    return _read(reply.body).connections


async def _from_nodes(client: Client, namespace: str, name: str) -> list[ExternalConnection]:
    labels = f"{LABEL_NAMESPACE}={namespace},{LABEL_EXTERNAL_SERVICE}={name}"
    forwarders = (await client.resource(FORWARDERS.typed(dict)).list(NAMESPACE, labels=labels)).items
    gateways = await asyncio.gather(*(_gateway(client, each) for each in sorted(gateways_of(forwarders))))
    relays = relays_of(forwarders, [each for each in gateways if each is not None])
    path = NODE_PATH.format(namespace=namespace, name=name)
    answers = await asyncio.gather(*(_ask(client, node, path) for node in relays.nodes))
    told = {node: answer for node, answer in zip(relays.nodes, answers, strict=True) if answer is not None}
    return [shown for _, shown in joined(told, relays)]


async def _gateway(client: Client, name: str) -> JsonObject | None:
    try:
        return await client.resource(GATEWAYS.typed(dict)).get(name, NAMESPACE)
    except NotFound:
        return None


async def _ask(client: Client, node: str, path: str) -> NodeConnections | None:
    """Return a node's connections; None when it does not respond: its connections are then missing."""
    try:
        return _read_node((await client.call("GET", f"/api/v1/nodes/{node}/proxy{path}", headers=JSON_ONLY)).body)
    except (ApiError, msgspec.MsgspecError):
        return None
