"""`NAME/plan` of Workloads, external services and public addresses: the effects of a manifest, which is not stored.

The manifest passes a dry run of the write (decoding, defaults, admission, validation), and the resulting object is
planned on the store's state. `?without=LHR,SEA` plans as if those cities were lost. A List plans the Workload in it as
if its other objects existed (`planfile`), other Workloads included: those are placed first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.compute.explanations import Cause, Plan
from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode
from tarmac.api.egress.names import API_VERSION as EGRESS_API_VERSION
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.ingress.names import API_VERSION as INGRESS_API_VERSION
from tarmac.api.ingress.plans import IngressPlan
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, Invalid
from tarmac.decide.explain import looked_at
from tarmac.decide.plans import laid_over, plan_external, plan_ingress, planned_workload, read_workloads
from tarmac.decide.snapshot.ingressobjects import INGRESS
from tarmac.decide.snapshot.lookup import SnapshotLookup
from tarmac.decide.snapshot.snapshot import AT_THE_SERVER, Objects
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.bodies import read_object
from tarmac.server.storage.creating import create_object
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import check_name, rewrite, rules_of
from tarmac.server.subresources.offloading import PLANS, run_in_thread, snapshot
from tarmac.server.subresources.planfile import read_file
from tarmac.server.subresources.userqueue import UserQueue
from tarmac.store.interface import Entry

PlanT = TypeVar("PlanT")


def plan_route(storage: ResourceStorage, queue: UserQueue) -> Route:
    """POST of `NAME/plan` with a Workload."""
    return {"create": queue.route(partial(_plan, storage))}


async def _plan(storage: ResourceStorage, request: Request) -> Response:
    options = write_options("CreateOptions", request)._replace(dry_run=True)
    call = WriteCall(storage, request, options)
    try:
        sources = {*looked_at(storage.bucket, AT_THE_SERVER), *INGRESS}
        world, before = _among_others(call, snapshot(storage, sources))
        entry = await dry_run(call)
    except (Invalid, Forbidden) as error:
        plan = Plan(accepted=False, causes=causes_of(error))
    else:
        workload = decode(Workload, storage.load(entry))
        without = _cities(request)
        plan = await run_in_thread(world, lambda _: planned_workload(world, before, workload, without), PLANS)
    body: JsonObject = {"kind": "Plan", "apiVersion": API_VERSION, **msgspec.to_builtins(plan)}
    return document(request, body, 200, call.warnings)


def _among_others(call: WriteCall, world: Objects) -> tuple[Objects, list[Workload]]:
    """Return the snapshot with the other objects of the file added, and its other Workloads, which are placed first.

    Changes the call: its body becomes the planned Workload, and validation uses that snapshot.
    """
    storage, request = call.storage, call.request
    file = read_file(request.body, storage.resource.group, storage.resource.kind, call.info.name)
    if file is None:
        return world, []
    request.body = file.planned
    world = laid_over(world, file.others, storage.services.catalog, call.info.namespace)
    strategy = WorkloadStrategy(SnapshotLookup(world))
    call.storage = ResourceStorage(replace(storage.resource, strategy=strategy), storage.services, storage.resource)
    return world, read_workloads(world, file.others, storage.services.catalog, call.info.namespace)


async def dry_run(call: WriteCall) -> Entry:
    """Return the object that a replacement by the manifest would store.

    Fields that clients cannot set keep their values.
    """
    exists = call.storage.head(call.key) is not None
    # Admission must see the planned write, not the create of `plan`.
    call.info = call.info._replace(subresource="", verb="update" if exists else "create")
    obj = read_object(call)
    check_name(call, obj)
    if not exists:
        # A manifest that was read from a cluster has both, and a create with a version is rejected.
        for field in ("uid", "resourceVersion"):
            obj["metadata"].pop(field, None)
        return await create_object(call, obj)

    def change(old: JsonObject, _: Entry) -> JsonObject:
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}

    return await rewrite(call, change, rules_of(call.storage))


def _cities(request: Request) -> set[str]:
    named = [city for value in request.params().get("without", ()) for city in value.split(",")]
    return {city.strip().upper() for city in named if city.strip()}


def causes_of(error: ApiError) -> list[Cause]:
    """Return the reasons why a manifest is rejected, by field."""
    causes = (error.details or {}).get("causes") or [{"message": error.message}]
    return [
        Cause(each.get("field", ""), each.get("reason", error.status_reason), each.get("message", ""))
        for each in causes
    ]


def external_plan_route(storage: ResourceStorage, queue: UserQueue) -> Route:
    """POST of `NAME/plan` with an ExternalService or a SourceIPClaim.

    A List plans the object in it as if its other objects existed, with its claims bound.
    """
    return {"create": queue.route(partial(_plan_external, storage))}


async def _plan_external(storage: ResourceStorage, request: Request) -> Response:
    call = _dry_call(storage, request)
    try:
        plan = await _planned_beside(call, snapshot(storage), plan_external)
    except (Invalid, Forbidden) as error:
        plan = ExternalPlan(accepted=False, causes=causes_of(error))
    body: JsonObject = {"kind": "ExternalPlan", "apiVersion": EGRESS_API_VERSION, **msgspec.to_builtins(plan)}
    return document(request, body, 200, call.warnings)


def ingress_plan_route(storage: ResourceStorage, queue: UserQueue) -> Route:
    """POST of `NAME/plan` with a Service, an AddressPool, a PublicAddress or a BGPPeer.

    A List plans the object in it as if its other objects existed, with the addresses of its Services taken.
    """
    return {"create": queue.route(partial(_plan_ingress, storage))}


async def _plan_ingress(storage: ResourceStorage, request: Request) -> Response:
    call = _dry_call(storage, request)
    try:
        world = snapshot(storage, {*AT_THE_SERVER, *INGRESS})
        plan = await _planned_beside(call, world, plan_ingress)
    except (Invalid, Forbidden) as error:
        plan = IngressPlan(accepted=False, causes=causes_of(error))
    body: JsonObject = {"kind": "IngressPlan", "apiVersion": INGRESS_API_VERSION, **msgspec.to_builtins(plan)}
    return document(request, body, 200, call.warnings)


def _dry_call(storage: ResourceStorage, request: Request) -> WriteCall:
    return WriteCall(storage, request, write_options("CreateOptions", request)._replace(dry_run=True))


async def _planned_beside(
    call: WriteCall,
    world: Objects,
    plan: Callable[[Objects, str, JsonObject, list[JsonObject], Catalog], PlanT],
) -> PlanT:
    """Return the plan of the object in the request, beside the other objects of its file."""
    storage, request, others = call.storage, call.request, list[JsonObject]()
    resource, catalog = storage.resource, storage.services.catalog
    file = read_file(request.body, resource.group, resource.kind, call.info.name)
    if file is not None:
        request.body, others = file.planned, file.others
    obj = storage.load(await dry_run(call))
    return await run_in_thread(world, lambda _: plan(world, resource.bucket, obj, others, catalog), PLANS)
