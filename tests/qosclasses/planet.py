"""A server in memory with full admission, its feature gate on or off, and objects for requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tarmac.api.catalog import build_catalog
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.server.admission.default import default_chain
from tarmac.server.app import RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.reader import Reader
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.store.memory import MemoryStore
from tests.server.conftest import Client, OpenGates, Reply

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
RANGES = "/api/v1/namespaces/default/limitranges"
BLOCKIO = "blockio.resources.alpha.kubernetes.io"
RDT = "rdt.resources.alpha.kubernetes.io"
OFF = "may not be set: the feature gate ClassResources is off"
_FIRST: tuple[tuple[str, Json], ...] = (
    ("/api/v1/namespaces", {"metadata": {"name": "default"}}),
    ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
    ("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "gvisor"}, "handler": "gvisor"}),
    ("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "runc"}, "handler": "runc"}),
)


@asynccontextmanager
async def serving(store: MemoryStore, *, class_resources: bool = True) -> AsyncGenerator[Client]:
    """Run a server on the store, which keeps its objects for the next server."""
    reader, clock, randomness, gates = Reader(store), ManualClock(), Randomness(7), OpenGates()
    catalog, authorizer = build_catalog(), Authorizer(store)
    authorizer.start()
    chain = default_chain(reader, catalog, clock, randomness, authorizer, class_resources=class_resources)
    passing = RequestGates(gates, gates, gates, gates)
    server = assemble(ServerParts(store, catalog, passing, chain, clock, randomness, reviews=gates, issuer=gates))
    await server.start()
    client = Client(server)
    for url, body in _FIRST:
        assert (await client.post(url, body)).status in (201, 409)
    yield client
    await server.stop()
    authorizer.stop()


def container(name: str = "main", /, **resources: Any) -> Json:
    return {"name": name, "image": "nginx", **({"resources": resources} if resources else {})}


def pod(name: str = "p", *containers: Json, annotations: Json | None = None, **spec: Any) -> Json:
    """Return a Pod on the host's kernel; its containers may differ in class."""
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {
        "metadata": metadata,
        "spec": {"runtimeClassName": "runc", "containers": [*containers] or [container()], **spec},
    }


def asking(**classes: str) -> Json:
    """Return the container `main` with these classes."""
    return container("main", classes=classes)


def quota(level: str = "containerClassResources", **types: Json | None) -> Json:
    """Return a quota `q`: type -> class -> capacity."""
    listed = [
        {"name": kind, "classes": [_listed(*each) for each in (classes or {}).items()]}
        for kind, classes in types.items()
    ]
    return {"metadata": {"name": "q"}, "spec": {level: listed}}


def _listed(name: str, capacity: int | None) -> Json:
    return {"name": name} if capacity is None else {"name": name, "capacity": capacity}


async def made(client: Client, url: str, obj: Json, **headers: str) -> Json:
    """Create an object; return it as stored."""
    reply = await client.post(url, obj, **headers)
    assert reply.status == 201, reply.raw
    return reply.json


def causes(reply: Reply) -> list[tuple[str, str]]:
    """Return field and message of every cause of a rejection."""
    assert reply.status == 422, reply.raw
    return [(cause["field"], cause["message"]) for cause in reply.json["details"]["causes"]]
