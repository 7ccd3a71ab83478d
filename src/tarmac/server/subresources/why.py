"""`NAME/why`: explains the state of an object, computed on request from the store."""

from __future__ import annotations

from functools import partial

import msgspec

from tarmac.api.compute.explanations import Subject
from tarmac.api.compute.names import API_VERSION
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.explain.answer import with_conflict
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.restored import conflict_of
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.offloading import run_in_thread, snapshot
from tarmac.server.subresources.reaching import Refuses, reach
from tarmac.server.subresources.userqueue import UserQueue

_OF_PODS = ("core/pods", "compute.datumapis.com/instances")  # an instance and its pod share their name


def why_route(storage: ResourceStorage, refuses: Refuses, queue: UserQueue) -> Route:
    """GET of `NAME/why`."""
    return {"get": queue.route(partial(_why, storage, refuses))}


async def _why(storage: ResourceStorage, refuses: Refuses, request: Request) -> Response:
    info = request.info
    if request.param("reach"):
        return await reach(storage, refuses, request)
    explain, key = EXPLAINERS[storage.bucket], storage.key(info.namespace, info.name)
    found = await run_in_thread(snapshot(storage), lambda world: explain(world, key))
    if storage.bucket in _OF_PODS and (conflict := conflict_of(storage.store, info.namespace, info.name)) is not None:
        subject = Subject(storage.resource.api_version, storage.resource.kind, info.namespace, info.name)
        found = with_conflict(found, subject, conflict.message, conflict.node)
    if found is None:
        raise storage.not_found(info.name)
    return document(request, {"kind": "Explanation", "apiVersion": API_VERSION, **msgspec.to_builtins(found)})
