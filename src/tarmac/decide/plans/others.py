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
from tarmac.base.clock import rfc3339
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.snapshot.egressobjects import NAMESPACES, SERVICES, SOURCE_IP_CLAIMS, SOURCE_IP_CLASSES, SOURCE_IPS
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
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
        ADDRESS_POOLS,
        BGP_PEERS,
        BUDGETS,
        CLAIMS,
        INSTANCE_TYPES,
        LOCATIONS,
        MACHINE_IMAGES,
        NAMESPACES,
        NETWORKS,
        NODES,
        PUBLIC_ADDRESSES,
        QUOTAS,
        RUNTIME_CLASSES,
        SERVICES,
        SOURCE_IPS,
        SOURCE_IP_CLASSES,
        VOLUMES,
    )
)
_BY_AGE: Final = frozenset(each.resource for each in (ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES, SERVICES))
"""Resources whose decisions compare creation times and uids, which a manifest has not."""
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
        if resource.namespaced:
            obj["metadata"]["namespace"] = obj["metadata"].get("namespace") or namespace
        if resource.bucket in _BY_AGE:
            obj = as_planned(snapshot, resource.bucket, obj)
        copied[resource.bucket][_key(obj["metadata"])] = _encode(obj, enc_hook=str)
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


def as_planned(snapshot: Objects, resource: str, obj: JsonObject) -> JsonObject:
    """Return the object as an update of the existing one of its name, or else as the newest of all."""
    metadata = obj["metadata"]
    raw = snapshot.get(resource, _key(metadata))
    known: JsonObject = msgspec.json.decode(raw) if raw is not None else {}
    new = {"uid": f"planned {_key(metadata)}", "creationTimestamp": rfc3339(snapshot.now)}
    own = known.get("metadata") or new
    kept = {name: own[name] for name in ("uid", "creationTimestamp") if name in own}
    return {**obj, "metadata": {**metadata, **kept}, "status": known.get("status") or {}}


def with_object(snapshot: Objects, resource: str, obj: JsonObject) -> Objects:
    """Return the snapshot with an object, in place of the one of its name."""
    raw = msgspec.json.encode(obj, enc_hook=str)
    changed = {**snapshot.objects.get(resource, {}), _key(obj["metadata"]): raw}
    return Objects(snapshot.now, {**snapshot.objects, resource: changed})


def namespace_of(obj: JsonObject) -> str:
    """Return the namespace of a manifest; empty if it names none."""
    metadata = obj.get("metadata")
    return str(metadata.get("namespace") or "") if isinstance(metadata, dict) else ""


def _key(metadata: JsonObject) -> str:
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
