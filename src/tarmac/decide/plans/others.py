"""Overlays the other objects of a file on a snapshot, so that a Workload is planned as if they existed.

Only resources that plans read count: Networks, quotas, instance types and so on. The client's permission to create them
is not checked, since nothing is created; a dry run of each object checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.decode import decode_object
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.snapshot.egressobjects import NAMESPACES, SERVICES, SOURCE_IP_CLAIMS, SOURCE_IP_CLASSES, SOURCE_IPS
from tarmac.decide.snapshot.snapshot import (
    BUDGETS,
    CLAIMS,
    INSTANCE_TYPES,
    LOCATIONS,
    MACHINE_IMAGES,
    NETWORKS,
    NODES,
    QUOTAS,
    RUNTIME_CLASSES,
    VOLUMES,
    Encoded,
    Objects,
)

_LAID: Final = frozenset(
    source.resource
    for source in (
        BUDGETS,
        CLAIMS,
        INSTANCE_TYPES,
        LOCATIONS,
        MACHINE_IMAGES,
        NAMESPACES,
        NETWORKS,
        NODES,
        QUOTAS,
        RUNTIME_CLASSES,
        SERVICES,
        SOURCE_IPS,
        SOURCE_IP_CLASSES,
        VOLUMES,
    )
)
SEEN: Final = _LAID | {SOURCE_IP_CLAIMS.resource}  # claims are bound rather than overlaid: `external`
"""Resources that people create and plans read. Pods, Instances and deployments are created by the platform."""

_encode = msgspec.json.encode


def laid_over(snapshot: Objects, others: Iterable[JsonObject], catalog: Catalog, namespace: str) -> Objects:
    """Return the snapshot with the other objects in it, in their stored form. Raises BadRequest, Invalid."""
    changed: dict[str, Mapping[str, Encoded]] = dict(snapshot.objects)
    copied: dict[str, dict[str, Encoded]] = {}
    for each in others:
        resource = resource_of(catalog, each)
        if resource is None or resource.bucket not in _LAID:
            continue
        if resource.bucket not in copied:
            changed[resource.bucket] = copied[resource.bucket] = dict(snapshot.objects.get(resource.bucket, {}))
        obj = stored_form(resource, each)
        metadata = obj["metadata"]
        own = f"{metadata.get('namespace') or namespace}/" if resource.namespaced else ""
        copied[resource.bucket][f"{own}{metadata['name']}"] = _encode(obj)
    return Objects(snapshot.now, changed)


def resource_of(catalog: Catalog, obj: JsonObject) -> Resource | None:
    """Return the resource of a manifest; None if it is not served."""
    group, _, version = str(obj.get("apiVersion")).rpartition("/")
    return catalog.find_kind(group, version, str(obj.get("kind")))


def stored_form(resource: Resource, written: JsonObject) -> JsonObject:
    """Return a manifest in its stored form. Raises BadRequest, Invalid."""
    obj = decode_object(resource, _encode(written), "application/json", "Ignore").obj
    name = obj.setdefault("metadata", {}).get("name")
    if not name:
        raise BadRequest(f"items: a {resource.kind} has no name")
    resource.strategy.default(obj)
    with FieldErrors() as errors:
        resource.strategy.validate(obj, errors)
    if errors:
        raise invalid(resource.group, resource.kind, name, errors)
    return obj
