"""Plans of Services of type LoadBalancer, AddressPools, PublicAddresses and BGPPeers, for `tarmac plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from tarmac.api.ingress.plans import IngressPlan
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Invalid, MethodNotAllowed, NotFound
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.targets.target import Target, dynamic, encode
from tarmac.client.targets.typed import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.client.targets.untyped import SERVICES

MANAGER = "tarmac-plan"

_read_ingress = msgspec.json.Decoder(IngressPlan).decode
INGRESS_KINDS: dict[tuple[str, str], Target[Any]] = {
    (each.group, each.kind): each for each in (BGP_PEERS, ADDRESS_POOLS, PUBLIC_ADDRESSES, SERVICES)
}


def object_key(obj: JsonObject) -> str:
    """Return `namespace/name`, or the name of a cluster-scoped object."""
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


def api_group(obj: JsonObject) -> str:
    """Return the API group of a manifest; empty for core."""
    group, slash, _ = str(obj.get("apiVersion", "")).partition("/")
    return group if slash else ""


def is_service(obj: JsonObject) -> bool:
    """Return True for a Service."""
    return (api_group(obj), obj["kind"]) == (SERVICES.group, SERVICES.kind)


def is_ingress(obj: JsonObject) -> bool:
    """Return True for the kinds of the way in; a Service only if it is of type LoadBalancer."""
    if is_service(obj):
        spec = obj.get("spec")
        return isinstance(spec, dict) and spec.get("type") == "LoadBalancer"
    return (api_group(obj), obj["kind"]) in INGRESS_KINDS


async def as_stored(client: Client, objects: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the objects as they would be stored, for plans beside them. Their own plans report refusals."""
    found: list[JsonObject] = []
    for obj in objects:
        try:
            found.append(await _stored(client, obj))
        except ApiError:
            continue
    return found


async def _stored(client: Client, obj: JsonObject) -> JsonObject:
    """Dry-run the write of an object. Servers allocate fields of Services, such as health check ports."""
    target = dynamic(obj["apiVersion"], INGRESS_KINDS[api_group(obj), obj["kind"]].plural, obj["kind"], is_service(obj))
    resource, metadata = client.resource(target), obj["metadata"]
    try:
        known = await resource.get(metadata["name"], metadata.get("namespace") or "")
    except NotFound:
        return await resource.create(deepcopy(obj), manager=MANAGER, dry_run=True)
    version = {"resourceVersion": known["metadata"]["resourceVersion"]}
    # An update, not an apply: lists of a Service are merged by key, and its old ports would stay.
    return await resource.update({**obj, "metadata": {**metadata, **version}}, manager=MANAGER, dry_run=True)


async def planned_ingress(
    client: Client, obj: JsonObject, console: Console, others: Sequence[JsonObject] = ()
) -> IngressPlan:
    """Return the plan of a Service, an AddressPool, a PublicAddress or a BGPPeer, as if the other objects existed."""
    metadata, target = obj["metadata"], INGRESS_KINDS[api_group(obj), obj["kind"]]
    body = {"apiVersion": "v1", "kind": "List", "items": [obj, *others]} if others else obj
    path = target.path(metadata.get("namespace") or "", metadata["name"], "plan")
    try:
        reply = await client.call("POST", path, {}, encode(body))
    except (NotFound, MethodNotAllowed):
        return await _plan_ingress_here(client, obj, console, others)
    return _read_ingress(reply.body)


async def _plan_ingress_here(
    client: Client, obj: JsonObject, console: Console, others: Sequence[JsonObject]
) -> IngressPlan:
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.cli.verbs.localplan import causes_of, plan_ingress_here
    from tarmac.decide.snapshot.ingressobjects import INGRESS
    from tarmac.decide.snapshot.snapshot import EVERYTHING

    if is_service(obj):
        try:
            obj = await _stored(client, obj)
        except Invalid as error:
            return IngressPlan(accepted=False, causes=causes_of(error))
        except NotFound:  # its namespace is created by the same file
            pass
    return plan_ingress_here(await fetch_world(client, console.warn, {*EVERYTHING, *INGRESS}), obj, others)
