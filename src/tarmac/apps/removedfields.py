"""Finds stored objects with fields unknown to this version: they are ignored, and the next write drops them.

A server returns objects as stored, independent of the version that wrote them. So all objects are read from the running
server and checked against the schemas of this program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator

from tarmac import __version__
from tarmac.api.catalog import build_catalog
from tarmac.api.decode import check_object
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, NotFound
from tarmac.apps.host.checks import Obstacle
from tarmac.client.client import Client
from tarmac.client.targets.target import Target

_UNKNOWN = "unknown field "


async def fields_that_go(client: Client) -> list[Obstacle]:
    """Return one obstacle per kind and field, with the first object that has it. Raises ApiError, ClientError."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for resource in build_catalog():
        if resource.stored and resource.storage is None and "list" in resource.verbs:
            async for item in _stored(client, resource):
                for what in _strange(resource, item):
                    found[resource.plural, what].append(_name(item))
    return [_told(plural, what, names) for (plural, what), names in found.items()]


async def _stored(client: Client, resource: Resource) -> AsyncIterator[JsonObject]:
    target = Target(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced, JsonObject)
    try:
        async for page in client.resource(target).pages():
            for item in page.items:
                yield item
    except NotFound:  # the server is older than the kind
        return


def _strange(resource: Resource, item: JsonObject) -> list[str]:
    item |= {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list lack these
    try:
        return [text for text in check_object(resource, item, "Warn") if text.startswith(_UNKNOWN)]
    except ApiError as error:
        return [f"content that cannot be read: {error.message}"]


def _told(plural: str, what: str, names: list[str]) -> Obstacle:
    which = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return Obstacle("fields", f"{plural} {which}: {what}, which tarmac {__version__} does not have; remove it first")


def _name(item: JsonObject) -> str:
    metadata = item["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
