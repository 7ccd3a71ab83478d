"""`NAME/plan` of Workloads and of external services: the effects of a manifest, computed without storing anything.

The manifest passes a dry run of the write (decoding, defaults, admission, validation), and the resulting object is
planned on the store's state. `?without=LHR,SEA` plans as if those cities were lost. A List plans the Workload in it as
if its other objects existed (`planfile`), other Workloads included: those are placed first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import msgspec

from tarmac.api.compute.explanations import Cause, Plan
from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode
from tarmac.api.egress.names import API_VERSION as EGRESS_API_VERSION
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, Invalid
from tarmac.decide.plans import carried_out, laid_over, plan_external, plan_workload, read_workloads
from tarmac.decide.snapshot.lookup import SnapshotLookup
from tarmac.decide.snapshot.snapshot import Objects
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


def plan_route(storage: ResourceStorage, queue: UserQueue) -> Route:
    """POST of `NAME/plan` with a Workload."""
    return {"create": queue.route(partial(_plan, storage))}


async def _plan(storage: ResourceStorage, request: Request) -> Response:
    options = write_options("CreateOptions", request)._replace(dry_run=True)
    call = WriteCall(storage, request, options)
    try:
        world, before = _among_others(call, snapshot(storage))
        entry = await dry_run(call)
    except (Invalid, Forbidden) as error:
        plan = Plan(accepted=False, causes=causes_of(error))
    else:
        workload = decode(Workload, storage.load(entry))
        without = _cities(request)
        cities = await run_in_thread(
            world, lambda _: plan_workload(carried_out(world, before, without), workload, without), PLANS
        )
        plan = Plan(accepted=True, cities=cities)
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
    options = write_options("CreateOptions", request)._replace(dry_run=True)
    call, catalog, resource = WriteCall(storage, request, options), storage.services.catalog, storage.resource
    world, others = snapshot(storage), list[JsonObject]()
    try:
        file = read_file(request.body, resource.group, resource.kind, call.info.name)
        if file is not None:
            request.body, others = file.planned, file.others
        obj = storage.load(await dry_run(call))
        plan = await run_in_thread(world, lambda _: plan_external(world, resource.bucket, obj, others, catalog), PLANS)
    except (Invalid, Forbidden) as error:
        plan = ExternalPlan(accepted=False, causes=causes_of(error))
    body: JsonObject = {"kind": "ExternalPlan", "apiVersion": EGRESS_API_VERSION, **msgspec.to_builtins(plan)}
    return document(request, body, 200, call.warnings)
