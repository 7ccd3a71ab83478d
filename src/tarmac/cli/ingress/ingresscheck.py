"""`tarmac ingress check NAME`: connects to each address from the nodes of each city, and prints the results."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

import msgspec

from tarmac.api.checks import mapping, objects
from tarmac.api.conditions import is_true
from tarmac.api.egress.names import object_name
from tarmac.api.ingress.nodechecks import CHECK_PATH, NodeIngressCheck
from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.cli.rendering.text import paragraph, table
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.client.client import Client
from tarmac.client.errors import ClientError
from tarmac.client.requests import JSON_ONLY
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NODES, PUBLIC_ADDRESSES, SERVICES, WORKLOADS

AT_A_TIME: Final = 8
_HEADERS: Final = ("ADDRESS", "CLIENT", "CITY", "ANNOUNCES", "ENDPOINTS", "SEEN-AS", "RESULT")
_SERVICE_WORDS: Final = ("", "service", "services", "svc")
_WORKLOAD_WORDS: Final = ("workload", "workloads", "wl")

_read = msgspec.json.Decoder(NodeIngressCheck).decode


class CheckedAddress(NamedTuple):
    """An address, a TCP port of it, and the nodes that announce it."""

    address: str
    port: int
    announcers: frozenset[str]


class AddressCheckResult(msgspec.Struct, rename="camel", frozen=True):
    """The result of one address from one node; `result` is `OK`, `Closed`, `Failed`, or a reason."""

    address: str
    client: str = ""
    city: str = ""
    announces: bool = False
    endpoints: list[str] = []
    seen_as: str = ""
    result: str = ""
    message: str = ""


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    options = call.options
    return await ingress_check(call.client, call.namespace, options.name, options.city, call.console, options.output)


async def ingress_check(client: Client, namespace: str, written: str, city: str, console: Console, output: str) -> int:
    """Print the result of each address from each node; 0 when all are OK. Raises BadObject, ApiError, ClientError."""
    addresses = await _addresses(client, namespace, written)
    nodes = (await client.resource(NODES).list()).items
    chosen = _clients(nodes, city)
    if not chosen:
        raise NotFound(f"no Ready node is in {city.upper()}" if city else "no node is Ready")
    names = _names(nodes)
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(address: CheckedAddress, node: JsonObject) -> AddressCheckResult:
        async with room:
            return await _checked(client, address, node, names)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(address, node)) for address in addresses for node in chosen]
    results = [task.result() for task in tasks]
    good = bool(results) and all(each.result in ("OK", "Closed") for each in results)
    if output == "json":
        console.show_json({"object": written, "ok": good, "results": results})
    else:
        console.say(check_text(results))
    return 0 if good else 1


def check_text(results: Sequence[AddressCheckResult]) -> str:
    """Return the table, and below it the messages of failed connections."""
    rows = [
        (each.address, each.client, each.city, "yes" if each.announces else "", ", ".join(each.endpoints), each.seen_as,
         each.result)
        for each in results
    ]  # fmt: skip
    parts = [table(_HEADERS, rows)]
    parts += [paragraph(f"{each.client} to {each.address}: {each.message}") for each in results if each.message]
    return "\n\n".join(parts) + "\n"


async def _addresses(client: Client, namespace: str, written: str) -> list[CheckedAddress]:
    """Return the addresses of a Service or Workload, each with a TCP port. Raises BadObject, NotFound."""
    kind, _, name = written.rpartition("/")
    if name and kind.lower() in _SERVICE_WORDS:
        service = await client.resource(SERVICES).get(name, namespace)
        shown = [each["ip"] for each in objects(mapping(service, "status", "loadBalancer"), "ingress")]
        ports = [each["port"] for each in objects(service["spec"], "ports") if each.get("protocol", "TCP") == "TCP"]
    elif name and kind.lower() in _WORKLOAD_WORDS:
        workload = await client.resource(WORKLOADS).get(name, namespace)
        shown = list(mapping(workload, "status").get("anycastAddresses") or ())
        ports = await _ports_of(client, namespace, shown)
    else:
        raise BadObject(f"{written!r} names neither a Service nor a Workload; write NAME, svc/NAME or workload/NAME")
    if not shown:
        raise NotFound(f"{written} shows no public address: tarmac why says the reason")
    if not ports:
        raise NotFound(f"{written} has no TCP port to connect to")
    return [CheckedAddress(each, ports[0], await _announcers(client, each)) for each in shown]


async def _ports_of(client: Client, namespace: str, shown: Iterable[str]) -> list[int]:
    """Return the TCP ports in the slices of a Workload's addresses."""
    found: list[int] = []
    for address in shown:
        label = f"networking.datumapis.com/address={object_name(ip_address(address))}"
        for each in (await client.resource(ENDPOINT_SLICES).list(namespace, labels=label)).items:
            found += [port["port"] for port in objects(each, "ports") if port.get("protocol", "TCP") == "TCP"]
    return sorted(set(found))


async def _announcers(client: Client, address: str) -> frozenset[str]:
    try:
        found = await client.resource(PUBLIC_ADDRESSES).get(object_name(ip_address(address)))
    except (Forbidden, NotFound):
        return frozenset()
    return frozenset(each["name"] for each in objects(mapping(found, "status"), "nodes") if each.get("announcing"))


def _clients(nodes: Iterable[JsonObject], city: str) -> list[JsonObject]:
    ready = sorted((each for each in nodes if is_true(each, "Ready")), key=lambda each: each["metadata"]["name"])
    return [each for each in ready if not city or _city(each) == city.upper()]


def _city(node: JsonObject) -> str:
    return str(mapping(node, "metadata", "labels").get(TOPOLOGY_CITY_CODE) or "")


def _names(nodes: Iterable[JsonObject]) -> dict[str, str]:
    """Return the names of nodes by their addresses."""
    return {
        own["address"]: each["metadata"]["name"]
        for each in nodes
        for own in objects(mapping(each, "status"), "addresses")
        if own.get("type") == "InternalIP"
    }


async def _checked(
    client: Client, checked: CheckedAddress, node: JsonObject, names: Mapping[str, str]
) -> AddressCheckResult:
    name = node["metadata"]["name"]
    base = AddressCheckResult(checked.address, name, _city(node), name in checked.announcers)
    path = f"/api/v1/nodes/{name}/proxy" + CHECK_PATH.format(address=checked.address, port=checked.port)
    try:
        found = _read((await client.call("GET", path, headers=JSON_ONLY)).body)
    except NotFound:
        return _with_result(base, "NoRules", "The node has no rules for the address: its gate WayIn may be off.")
    except ApiError as error:
        return _with_result(base, error.status_reason, error.message)
    except (ClientError, UnicodeError, msgspec.MsgspecError) as error:
        return _with_result(base, "Disconnected", str(error))
    told = msgspec.structs.replace(
        base, seen_as=found.seen_as, endpoints=[names.get(each, each) for each in found.nodes]
    )
    if found.closed:
        return _with_result(told, "Closed", found.problem)
    return _with_result(told, "Failed" if found.problem else "OK", found.problem)


def _with_result(base: AddressCheckResult, result: str, message: str) -> AddressCheckResult:
    return msgspec.structs.replace(base, result=result, message=message)
