"""Server-side apply."""

from __future__ import annotations

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.patch import managed


def server_side_apply(
    resource: Resource,
    live: JsonObject | None,
    applied: JsonObject,
    manager: str,
    *,
    force: bool,
    subresource: str,
    now: str,
) -> JsonObject:
    """Merge `applied` into `live` (None creates) on behalf of `manager`; returns the new object, managedFields set."""
    merged = {**(live or {}), **applied}
    managed.for_update(resource, live, merged, manager, subresource, now)
    return merged
