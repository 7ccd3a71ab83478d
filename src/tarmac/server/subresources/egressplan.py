"""`externalservices/NAME/plan` and `sourceipclaims/NAME/plan`: the effects of a manifest, without storing anything.

As for Workloads: a dry run of the write, then the controller's decisions on the store's state. A List plans the object
in it as if its other objects existed, with its claims bound.
"""

from __future__ import annotations

from functools import partial

import msgspec

from tarmac.api.egress.names import API_VERSION
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, Invalid
from tarmac.decide.plans import plan_external
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.subresources.offloading import PLANS, run_in_thread, snapshot
from tarmac.server.subresources.plan import causes_of, dry_run
from tarmac.server.subresources.planfile import read_file
from tarmac.server.subresources.userqueue import UserQueue


def external_plan_route(storage: ResourceStorage, queue: UserQueue) -> Route:
    """POST of `NAME/plan` with an ExternalService or a SourceIPClaim."""
    return {"create": queue.route(partial(_plan, storage))}


async def _plan(storage: ResourceStorage, request: Request) -> Response:
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
    body: JsonObject = {"kind": "ExternalPlan", "apiVersion": API_VERSION, **msgspec.to_builtins(plan)}
    return document(request, body, 200, call.warnings)
