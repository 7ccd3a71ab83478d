"""`tarmac egress check NAME`: tests every source of an ExternalService, a few at a time, and prints the results."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.status import NotFound
from tarmac.cli.egress.checking import CheckResult, Dialled, SourceChecker
from tarmac.cli.egress.commands import RemoteCommand, start_command
from tarmac.cli.egress.connections import live_connections
from tarmac.cli.egress.sources import CheckedSource, sources_of
from tarmac.cli.rendering.text import paragraph, table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objects import BadObject
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.targets.typed import EXTERNAL_SERVICES
from tarmac.decide.egress.compiling import dial_port

AT_A_TIME: Final = 8
_HEADERS: Final = ("SOURCE", "POD", "NODE", "GATEWAY", "SEEN-AS", "EXPECTED", "RESULT")
_WORDS: Final = ("externalservice", "externalservices", "extsvc")
_DIALLED: Final[dict[str, Literal["tcp", "udp"]]] = {"TCP": "tcp", "UDP": "udp"}


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
