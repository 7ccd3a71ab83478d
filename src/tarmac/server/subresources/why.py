"""`NAME/why`: why an object is as it is, worked out when asked from what the store holds."""

from __future__ import annotations

from functools import partial

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.decide.explain import EXPLAINERS
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.offloading import ponder, snapshot


def why_route(served: ResourceStorage) -> Route:
    """GET of `NAME/why`."""
    return {"get": partial(_why, served)}


async def _why(served: ResourceStorage, request: Request) -> Response:
    info = request.info
    explain, key = EXPLAINERS[served.bucket], served.key(info.namespace, info.name)
    found = await ponder(snapshot(served), lambda world: explain(world, key))
    if found is None:
        raise served.not_found(info.name)
    return document(request, {"kind": "Explanation", "apiVersion": API_VERSION, **msgspec.to_builtins(found)})
