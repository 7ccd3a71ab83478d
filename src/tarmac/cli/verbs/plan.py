"""`tarmac plan -f FILE`: the server plans; where it cannot, the same functions plan on fetched lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from tarmac.api.catalog import build_catalog
from tarmac.api.compute.explanations import Plan
from tarmac.api.compute.names import ANNOTATION_ANYCAST, GROUP
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.ingress.plans import IngressPlan
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, MethodNotAllowed, NotFound
from tarmac.cli.rendering.egressplan import external_plan_text
from tarmac.cli.rendering.ingressplan import ingress_plan_text
from tarmac.cli.rendering.plantext import plan_text
from tarmac.cli.verbs.call import VerbCall
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.ingressplans import (
    MANAGER,
    api_group,
    as_stored,
    is_ingress,
    is_service,
    object_key,
    planned_ingress,
)
from tarmac.cli.verbs.manifests import BadManifest, read_manifests
from tarmac.client.client import Client
from tarmac.client.targets.target import Target, dynamic, encode
from tarmac.client.targets.typed import (
    EXTERNAL_SERVICES,
    SOURCE_IP_CLAIMS,
    WORKLOADS,
)
from tarmac.decide.plans import SEEN, resource_of

RUNS, REFUSED = 0, 2
MAX_TOGETHER = 20  # Workloads: each is planned as often as further ones follow it

_read = msgspec.json.Decoder(Plan).decode
_read_external = msgspec.json.Decoder(ExternalPlan).decode
_EXTERNAL: dict[str, Target[Any]] = {each.kind: each for each in (EXTERNAL_SERVICES, SOURCE_IP_CLAIMS)}
AnyPlan = Plan | ExternalPlan | IngressPlan


async def run(call: VerbCall) -> int:
    """Run the verb with the flags of the command line; return the exit code."""
    options = call.options
    return await plan(call.client, call.namespace, options.filename, options.without, call.console, options.output)


async def plan(
    client: Client, namespace: str, filename: str, without: Sequence[str], console: Console, output: str
) -> int:
    """Print the plan of every object of the file that can be planned, as if the other objects existed."""
    sorted_out = _sorted(read_manifests(filename), namespace)
    stored, accepted = await _tried(client, sorted_out.others, namespace, console)
    workloads = deepcopy(sorted_out.workloads[:MAX_TOGETHER])  # planning converts the originals to their stored form
    ingress = await as_stored(client, sorted_out.ingress)
    plans: dict[str, AnyPlan] = dict(
        await _plan_workloads(client, sorted_out.workloads, [*stored, *ingress], without, console)
    )
    more = (*stored, *deepcopy(sorted_out.external), *ingress)
    for obj in sorted_out.external:
        plans[_name(obj)] = await planned_external(client, obj, console, _but(more, obj))
    for obj in sorted_out.ingress:
        beside = [*workloads, *_but(more, obj)]
        plans[_name(obj)] = await planned_ingress(client, obj, console, beside)
    if output == "json":
        console.show_json(_document(plans))
    else:
        console.say("\n".join(_text(name, each) for name, each in plans.items()))
    return RUNS if accepted and all(each.runs for each in plans.values()) else REFUSED


def _but(objects: Iterable[JsonObject], planned: JsonObject) -> list[JsonObject]:
    return [each for each in objects if (each["kind"], object_key(each)) != (planned["kind"], object_key(planned))]


async def _plan_workloads(
    client: Client, workloads: Sequence[JsonObject], others: Sequence[JsonObject], without: Sequence[str],
    console: Console,
) -> dict[str, Plan]:  # fmt: skip
    """Plan each Workload as if those before it existed."""
    plans: dict[str, Plan] = {}
    before: list[JsonObject] = []
    if len(workloads) > MAX_TOGETHER:
        console.warn(
            f"of {len(workloads)} Workloads each is planned as if it were the only one; {MAX_TOGETHER} can be together"
        )
    for workload in workloads:
        written = deepcopy(workload)
        found = plans[_name(workload)] = await planned(client, workload, without, console, [*others, *before])
        if found.accepted and len(workloads) <= MAX_TOGETHER:
            before.append(written)  # planning converts the original to its stored form
    return plans


def _name(obj: JsonObject) -> str:
    return f"{obj['kind']} {object_key(obj)}"


def _text(name: str, found: AnyPlan) -> str:
    if isinstance(found, IngressPlan):
        return ingress_plan_text(name, found)
    return plan_text(name.partition(" ")[2], found) if isinstance(found, Plan) else external_plan_text(name, found)


def _document(plans: Mapping[str, AnyPlan]) -> AnyPlan | JsonObject:
    """Return one plan as it is; several by name."""
    if len(plans) == 1:
        return next(iter(plans.values()))
    found: list[JsonObject] = []
    for name, each in plans.items():
        kind, _, key = name.partition(" ")
        found.append({kind[0].lower() + kind[1:]: key, **msgspec.to_builtins(each)})
    return {"plans": found}


async def planned(
    client: Client, workload: JsonObject, without: Sequence[str], console: Console, others: Sequence[JsonObject] = ()
) -> Plan:
    """Return the plan of one Workload, as if the other objects existed."""
    metadata = workload["metadata"]
    path = WORKLOADS.path(metadata["namespace"], metadata["name"], "plan")
    body = {"apiVersion": "v1", "kind": "List", "items": [workload, *others]} if others else workload
    try:
        reply = await client.call("POST", path, {"without": ",".join(without)}, encode(body))
    except (NotFound, MethodNotAllowed):
        return await _plan_here(client, workload, without, console, others)
    return _read(reply.body)


async def _plan_here(
    client: Client, workload: JsonObject, without: Sequence[str], console: Console, others: Sequence[JsonObject]
) -> Plan:
    # Imported late: planning takes half a second to load, and a Tarmac server does it remotely.
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.cli.verbs.localplan import plan_here
    from tarmac.decide.snapshot.ingressobjects import INGRESS
    from tarmac.decide.snapshot.snapshot import EVERYTHING

    annotations = workload["metadata"].get("annotations") or {}
    sources = {*EVERYTHING, *INGRESS} if annotations.get(ANNOTATION_ANYCAST) == "true" else EVERYTHING
    return plan_here(await fetch_world(client, console.warn, sources), workload, without, others)


async def planned_external(
    client: Client, obj: JsonObject, console: Console, others: Sequence[JsonObject] = ()
) -> ExternalPlan:
    """Return the plan of one ExternalService or SourceIPClaim, as if the other objects existed."""
    metadata, target = obj["metadata"], _EXTERNAL[obj["kind"]]
    body = {"apiVersion": "v1", "kind": "List", "items": [obj, *others]} if others else obj
    try:
        reply = await client.call(
            "POST", target.path(metadata["namespace"], metadata["name"], "plan"), {}, encode(body)
        )
    except (NotFound, MethodNotAllowed):
        return await _plan_external_here(client, obj, console, others)
    return _read_external(reply.body)


async def _plan_external_here(
    client: Client, obj: JsonObject, console: Console, others: Sequence[JsonObject]
) -> ExternalPlan:
    from tarmac.cli.verbs.fetching import fetch_world
    from tarmac.cli.verbs.localplan import plan_external_here
    from tarmac.decide.snapshot.egressobjects import EXTERNAL

    return plan_external_here(await fetch_world(client, console.warn, EXTERNAL), obj, others)


async def _tried(
    client: Client, others: Sequence[JsonObject], namespace: str, console: Console
) -> tuple[list[JsonObject], bool]:
    if not others:
        return [], True
    # Imported late: the catalogue of kinds takes long to load, and most files hold Workloads alone.

    return await try_others(client, others, namespace, console.warn)


class _Sorted(NamedTuple):
    """The objects of a file by treatment; those that can be planned have a name and a namespace."""

    workloads: list[JsonObject]
    external: list[JsonObject]
    ingress: list[JsonObject]
    others: list[JsonObject]


def _sorted(objects: Sequence[JsonObject], namespace: str) -> _Sorted:
    found = _Sorted([], [], [], [])
    for obj in objects:
        group, kind = api_group(obj), obj["kind"]
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise BadManifest(f"a {kind} has no name")
        if (group, kind) == (GROUP, "Workload"):
            found.workloads.append(obj)
        elif group == SUBMARINER and kind in _EXTERNAL:
            found.external.append(obj)
        elif is_ingress(obj):
            found.ingress.append(obj)
            if not is_service(obj):
                continue  # cluster-scoped
        else:
            found.others.append(obj)
            continue
        metadata.setdefault("namespace", namespace)
    if not found.workloads and not found.external and not found.ingress:
        raise BadManifest(
            "nothing in it can be planned: it needs a Workload, an ExternalService, a SourceIPClaim, a Service of type "
            "LoadBalancer, an AddressPool, a PublicAddress or a BGPPeer"
        )
    # Claims first: a service is then planned after its addresses.
    found.external.sort(key=lambda obj: obj["kind"] == "ExternalService")
    return found


# Dry-runs the other objects of a planned file, one by one with the user's rights.
#
# A server-side apply as a dry run passes all steps of a write and returns the object as it would be stored. Refused
# objects are reported, and the plan is made without them.


async def try_others(
    client: Client, others: Sequence[JsonObject], namespace: str, warn: Callable[[str], None]
) -> tuple[list[JsonObject], bool]:
    """Return the objects that plans use, as they would be stored, and True if every object would be accepted."""
    catalog, found, refused = build_catalog(), list[JsonObject](), False
    to_come = _namespaces(others)
    for obj in others:
        resource, what = resource_of(catalog, obj), f"{obj['kind']} {obj['metadata']['name']}"
        if resource is None:
            warn(f"{what} is of a kind that is not served here; the plan is made without it")
            continue
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", namespace)
        try:
            stored = await _try(client, resource, obj, to_come)
        except ApiError as error:
            warn(f"{what} would be refused: {error.message}; the plan is made without it")
            refused = True
            continue
        if resource.bucket in SEEN:
            found.append(stored)
    return found, not refused


async def _try(client: Client, resource: Resource, obj: JsonObject, to_come: set[str]) -> JsonObject:
    target = dynamic(resource.api_version, resource.plural, resource.kind, resource.namespaced)
    try:
        return await client.resource(target).apply(obj, manager=MANAGER, dry_run=True)
    except NotFound:
        # Its namespace is created by the same file: a dry run there fails before it exists.
        if obj["metadata"].get("namespace") in to_come:
            return obj
        raise


def _namespaces(objects: Iterable[JsonObject]) -> set[str]:
    return {
        each["metadata"]["name"] for each in objects if (each.get("apiVersion"), each["kind"]) == ("v1", "Namespace")
    }
