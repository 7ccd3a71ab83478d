"""`NAME/why`: why an object is as it is, worked out when asked from what the store holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import msgspec

from tarmac.api.compute.names import API_VERSION
from tarmac.decide.explain import EXPLAINERS
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.served import Served
from tarmac.store.interface import Store


@dataclass(frozen=True, slots=True)
class StoreWorld:
    """The store as explanations and plans read it."""

    store: Store
    now: float

    def get(self, resource: str, key: str) -> bytes | None:
        """One object."""
        entry = self.store.get(resource, key)
        return None if entry is None else entry.raw

    def list(self, resource: str, namespace: str = "") -> Iterable[bytes]:
        """The objects of a namespace, or of all of them."""
        return (entry.raw for entry in self.store.list(resource, f"{namespace}/" if namespace else "").entries)


def why_route(served: Served) -> Route:
    """GET of `NAME/why`."""
    return {"get": partial(_why, served)}


def _why(served: Served, request: Request) -> Response:
    info = request.info
    world = StoreWorld(served.store, served.services.clock.now())
    found = EXPLAINERS[served.bucket](world, served.key(info.namespace, info.name))
    if found is None:
        raise served.not_found(info.name)
    return document(request, {"kind": "Explanation", "apiVersion": API_VERSION, **msgspec.to_builtins(found)})
