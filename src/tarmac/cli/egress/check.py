"""`tarmac egress check NAME`: tests every source of an ExternalService, a few at a time, and prints the results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

import msgspec

from tarmac.api.egress.connections import NODE_PATH, ExternalConnection, ExternalConnections, NodeConnections
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import LABEL_EXTERNAL_SERVICE, LABEL_NAMESPACE, NAMESPACE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.cli.egress.checking import CheckResult, Dialled, SourceChecker
from tarmac.cli.egress.commands import RemoteCommand, start_command
from tarmac.cli.egress.sourcepods import CheckedSource, sources_of
from tarmac.cli.rendering.text import paragraph, table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.requests import JSON_ONLY
from tarmac.client.targets.typed import EXTERNAL_SERVICES, FORWARDERS, GATEWAYS
from tarmac.decide.egress.compiling import dial_port
from tarmac.decide.egress.connections import gateways_of, joined, relays_of

AT_A_TIME: Final = 8
_HEADERS: Final = ("SOURCE", "POD", "NODE", "GATEWAY", "SEEN-AS", "EXPECTED", "RESULT")
_WORDS: Final = ("externalservice", "externalservices", "extsvc")
_DIALLED: Final[dict[str, Literal["tcp", "udp"]]] = {"TCP": "tcp", "UDP": "udp"}

_read = msgspec.json.Decoder(ExternalConnections).decode
_read_node = msgspec.json.Decoder(NodeConnections).decode


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    options, http = call.options, call.http
    return await egress_check(
        call.client, http, call.namespace, options.name, options.from_pod, call.console, options.output
    )


async def egress_check(
    client: Client, http: HttpConfig, namespace: str, written: str, from_pod: str, console: Console, output: str
) -> int:
    """Print the result of each source; 0 when all are correct. Raises BadObject, ApiError, ClientError."""
    service = await client.resource(EXTERNAL_SERVICES).get(_name(written), namespace)
    sources = await sources_of(client, service)
    if from_pod:
        sources = [_only(sources, from_pod if "/" in from_pod else f"{namespace}/{from_pod}")]
    results = await _checked(client, http, service, sources)
    good = all(each.result == "OK" for each in results)
    if output == "json":
        own = service.metadata
        console.show_json({"externalService": f"{own.namespace}/{own.name}", "ok": good, "sources": results})
    else:
        console.say(check_text(results))
    return 0 if good else 1


def check_text(results: Sequence[CheckResult]) -> str:
    """Return the table, and below it the messages of failed sources."""
    rows = [
        (each.source, each.pod, each.node, each.gateway, each.seen_as, each.expected, each.result) for each in results
    ]
    parts = [table(_HEADERS, rows)]
    parts += [paragraph(f"{each.source}: {each.message}") for each in results if each.message]
    return "\n\n".join(parts) + "\n"


def _name(written: str) -> str:
    kind, slash, name = written.rpartition("/")
    if not name or (slash and kind.lower().partition(".")[0] not in _WORDS):
        raise BadObject(f"{written!r} names no ExternalService; write NAME or extsvc/NAME")
    return name


def _only(sources: Sequence[CheckedSource], pod: str) -> CheckedSource:
    for source in sources:
        own = [each for each in source.pods if each.name == pod]
        if own:
            source.pods = own
            return source
    raise NotFound(f"pod {pod} stands behind none of the sources")


async def _checked(
    client: Client, http: HttpConfig, service: ExternalService, sources: Sequence[CheckedSource]
) -> list[CheckResult]:
    dialled, refused = _dialled(service)
    if dialled is None:
        return [
            CheckResult(each.service, expected=each.expected, result=refused[0], message=refused[1]) for each in sources
        ]
    own, room = service.metadata, asyncio.Semaphore(AT_A_TIME)

    async def start(namespace: str, pod: str, command: list[str]) -> RemoteCommand:
        return await start_command(http, namespace, pod, command, client.randomness)

    listing = partial(live_connections, client, own.namespace, own.name)
    checker = SourceChecker(start, listing, dialled, client.clock)

    async def one(source: CheckedSource) -> CheckResult:
        async with room:
            return await checker.check(source)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(each)) for each in sources]
    return [task.result() for task in tasks]


def _dialled(service: ExternalService) -> tuple[Dialled | None, tuple[str, str]]:
    """Return the address to dial, TCP rather than UDP; or the reason why there is none."""
    addresses = service.status.addresses if service.status is not None else []
    if not addresses:
        return None, ("NoAddress", "There is no address to dial yet: no controller has looked at the service.")
    ports = sorted(service.spec.ports, key=lambda port: port.protocol != "TCP")
    for port in ports:
        if port.protocol in _DIALLED:
            return Dialled(addresses[0], dial_port(port), _DIALLED[port.protocol]), ("", "")
    return None, ("NoTool", "Not proven: images have nothing that speaks SCTP.")


# The live connections of an ExternalService, joined by the server.
#
# A Kubernetes API server with Tarmac's CRDs does not join them: there the client reads each node through its proxy, if
# permitted.


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
    by_node = {node: answer for node, answer in zip(relays.nodes, answers, strict=True) if answer is not None}
    return [shown for _, shown in joined(by_node, relays)]


async def _gateway(client: Client, name: str) -> JsonObject | None:
    try:
        return await client.resource(GATEWAYS.typed(dict)).get(name, NAMESPACE)
    except NotFound:
        return None


async def _ask(client: Client, node: str, path: str) -> NodeConnections | None:
    """Return a node's connections; None when it does not respond: its connections are then missing."""
    try:
        return _read_node((await client.call("GET", f"/api/v1/nodes/{node}/proxy{path}", headers=JSON_ONLY)).body)
    except (ApiError, UnicodeError, msgspec.MsgspecError):
        return None
