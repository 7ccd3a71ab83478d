"""The other objects of a file that is planned: tried one by one, as the one who asks, without making any.

A server-side apply as a dry run goes the whole way of a write and answers with what would be stored. What is refused
is said, and the plan is made without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tarmac.api.catalog import build_catalog
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.decide.plans import SEEN, resource_of

_MANAGER = "tarmac-plan"


async def try_others(
    client: Client, others: Sequence[JsonObject], namespace: str, warn: Callable[[str], None]
) -> tuple[list[JsonObject], bool]:
    """Those that plans look at, as they would be stored, and whether every one of the others would be accepted."""
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
        return await client.resource(target).apply(obj, manager=_MANAGER, dry_run=True)
    except NotFound:
        # Its namespace is made by the same file: nothing can be tried there before it exists.
        if obj["metadata"].get("namespace") in to_come:
            return obj
        raise


def _namespaces(objects: Iterable[JsonObject]) -> set[str]:
    return {
        each["metadata"]["name"] for each in objects if (each.get("apiVersion"), each["kind"]) == ("v1", "Namespace")
    }
