"""Dry-runs the other objects of a planned file, one by one with the user's rights.

A server-side apply as a dry run passes all steps of a write and returns the object as it would be stored. Refused
objects are reported, and the plan is made without them.
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
        return await client.resource(target).apply(obj, manager=_MANAGER, dry_run=True)
    except NotFound:
        # Its namespace is created by the same file: a dry run there fails before it exists.
        if obj["metadata"].get("namespace") in to_come:
            return obj
        raise


def _namespaces(objects: Iterable[JsonObject]) -> set[str]:
    return {
        each["metadata"]["name"] for each in objects if (each.get("apiVersion"), each["kind"]) == ("v1", "Namespace")
    }
