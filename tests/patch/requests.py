"""A scenario's step as a request, and as a call of this package."""

from __future__ import annotations

import copy
import json
from typing import Any

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.server.patch import engine, managed
from tarmac.server.patch.apply import server_side_apply
from tests.patch.scenarios import NAME, Step

PATCH_TYPES = {
    "json": engine.JSON_PATCH,
    "merge": engine.MERGE_PATCH,
    "strategic": engine.STRATEGIC_PATCH,
    "apply": engine.APPLY_PATCH,
}


def body_of(resource: Resource, step: Step, live: JsonObject | None) -> Any:
    """Return the body of a request: whole objects get the common fields of the kind."""
    if step.verb in ("json", "merge", "strategic"):
        return step.body
    given: JsonObject = copy.deepcopy(step.body)
    metadata = {"name": NAME, **given.get("metadata", {})}
    if step.verb == "update" and live is not None:
        metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    return {"apiVersion": resource.api_version, "kind": resource.kind, **given, "metadata": metadata}


def outcome(resource: Resource, live: JsonObject | None, step: Step, now: str) -> JsonObject:
    """Return the result of the request; defaults, and managers unless it is an apply, still have to be set."""
    body = body_of(resource, step, live)
    if step.verb == "apply":
        return server_side_apply(
            resource, live, body, step.manager, force=step.force, subresource=step.subresource, now=now
        )
    if step.verb in PATCH_TYPES:
        assert live is not None
        return engine.apply_patch(resource, PATCH_TYPES[step.verb], live, json.dumps(body).encode()).obj
    return body


def managers(
    resource: Resource, live: JsonObject | None, new: JsonObject, sent: Any, step: Step, now: str
) -> list[JsonObject]:
    """Return managedFields after a write of `new`, whose body had `sent` as its managedFields."""
    obj = copy.deepcopy(new)
    obj["metadata"].pop("managedFields", None)
    if sent is not None:
        obj["metadata"]["managedFields"] = sent
    managed.for_update(resource, live, obj, step.manager, step.subresource, now)
    return obj["metadata"].get("managedFields", [])
