"""Reads all objects from a server that does not explain by itself: a Kubernetes API server with Tarmac's CRDs.

Forbidden lists are left out with a warning: an explanation without the nodes is still better than none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.resource import Resource
from tarmac.api.status import Forbidden, NotFound
from tarmac.client.client import Client
from tarmac.client.envelope import metadata_of
from tarmac.client.resourceclient import PAGE
from tarmac.client.targets.target import Target, dynamic
from tarmac.decide.snapshot.snapshot import EVERYTHING, Encoded, Objects, ResourceSource

Warn = Callable[[str], None]


async def fetch_world(client: Client, warn: Warn, sources: Iterable[ResourceSource[Any]] = EVERYTHING) -> Objects:
    """Return all objects that an explanation or plan needs."""
    catalog = build_catalog()
    objects: dict[str, dict[str, Encoded]] = {}
    for source in sources:
        resource = _resource(catalog, source.resource)
        try:
            objects[source.resource] = await _fetch(client, resource)
        except NotFound:
            objects[source.resource] = {}  # a server without the kind has no object of it
        except Forbidden:
            warn(f"{resource.plural} may not be listed, so the answer leaves them out")
    return Objects(client.clock.now(), objects)


def _resource(catalog: Catalog, name: str) -> Resource:
    return next(resource for resource in catalog if resource.bucket == name and resource.storage is None)


async def _fetch(client: Client, resource: Resource) -> dict[str, Encoded]:
    target = dynamic(resource.api_version, resource.plural, resource.kind, resource.namespaced)
    found: dict[str, Encoded] = {}
    continues = ""
    while True:
        page = await client.resource(target).list_raw(query={"limit": PAGE, "continue": continues})
        for raw in page.items:
            metadata = metadata_of(bytes(raw))
            found[metadata.key] = _normal(resource, target, raw)
        continues = page.continues
        if not continues:
            return found


def _normal(resource: Resource, target: Target[dict[str, object]], raw: msgspec.Raw) -> Encoded:
    """Return the stored form: a server with CRDs keeps shorthands as they were written."""
    if resource.native:
        return bytes(raw)
    obj = target.decode(raw)
    resource.strategy.normalise(obj)
    return msgspec.json.encode(obj)
