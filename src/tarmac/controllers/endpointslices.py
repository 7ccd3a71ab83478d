"""Desired EndpointSlices: names, documents and writes.

A slice's name is derived from its Service, group and number, so creating the same slice twice is idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.base.cooperative import CooperativeRunner, CooperativeWork
from tarmac.base.digits import whole_number
from tarmac.client.cache import Item
from tarmac.client.resourceclient import ResourceClient
from tarmac.controllers.writes import create_if_absent, delete_same
from tarmac.decide.endpoints import Endpoint, EndpointGroup, ServiceFacts, shared_out

MANAGER = "tarmac-service"
BY_SERVICE = "service"
LABEL_SERVICE = "kubernetes.io/service-name"
LABEL_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGED_BY = "endpointslice-controller.datumapis.com"
_MAX_INDEX = 10**9  # of slices of one group
_HEADLESS = {"service.kubernetes.io/headless": ""}


class DesiredSlice(NamedTuple):
    """A slice as it should be."""

    name: str
    service: ServiceFacts
    group: EndpointGroup
    endpoints: tuple[JsonObject, ...]


async def write_slices(
    slices: ResourceClient[JsonObject],
    runner: CooperativeRunner,
    service: ServiceFacts,
    groups: Iterable[tuple[EndpointGroup, list[Endpoint]]],
    present: Mapping[str, Item[Any]],
    document: Callable[[DesiredSlice], JsonObject] | None = None,
) -> None:
    """Make the slices of a Service match the endpoints in each group. `document`: by default `slice_document`."""
    wanted = await runner.done(_wanted(service, groups, present))
    for name, slice_ in wanted.items():
        await write_slice(slices, (document or slice_document)(slice_), present.get(name), MANAGER)
        await asyncio.sleep(0)
    # Last: an endpoint that moves between slices may be in both for a moment, but never in none.
    await remove_slices(slices, [item for name, item in present.items() if name not in wanted])


async def write_slice(
    slices: ResourceClient[JsonObject],
    document: JsonObject,
    present: Item[Any] | None,
    manager: str,
    *,
    exactly: bool = False,
) -> bool:
    """Write a slice unless it already matches; return True if it was written.

    Additional labels and annotations on the present slice count as a difference only if `exactly` is set.
    """
    if present is None:
        return await create_if_absent(slices, document, manager)
    if _matches(present.object, document, exactly):
        return False
    # Conditional: a full update would undo changes that the cache does not show yet.
    document["metadata"]["resourceVersion"] = present.metadata.resource_version
    await slices.update(document, manager=manager)
    return True


async def remove_slices(slices: ResourceClient[JsonObject], items: list[Item[Any]]) -> None:
    """Delete slices by uid, so that a new slice with the same name survives."""
    for item in items:
        await delete_same(slices, item.metadata)


def slice_document(wanted: DesiredSlice) -> JsonObject:
    """Return the EndpointSlice object. It carries its Service's labels and is owned by it."""
    own, group = wanted.service.metadata, wanted.group
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": own.name,
        "uid": own.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": wanted.name,
            "namespace": own.namespace,
            "labels": {
                **(own.labels or {}),
                **(_HEADLESS if wanted.service.headless else {}),
                LABEL_SERVICE: own.name,
                LABEL_MANAGED_BY: MANAGED_BY,
            },
            "annotations": {ANNOTATION_NETWORK: group.network} if group.network else {},
            "ownerReferences": [owner],
        },
        "addressType": group.family,
        "endpoints": list(wanted.endpoints),
        "ports": [port.document() for port in group.ports],
    }


def service_of(item: Item[Any]) -> tuple[str, ...]:
    """Index: slices by the key of their Service."""
    name = (item.metadata.labels or {}).get(LABEL_SERVICE)
    return (f"{item.metadata.namespace}/{name}",) if name else ()


def is_managed(item: Item[Any], by: str = MANAGED_BY) -> bool:
    """Return True if the manager `by` owns the slice."""
    return (item.metadata.labels or {}).get(LABEL_MANAGED_BY) == by


def name_of(owner: str, uid: str, group: EndpointGroup) -> str:
    """Return the common name prefix of a group's slices; their number is appended."""
    return f"{owner}-{sha256(repr((uid, group)).encode()).hexdigest()[:8]}"


def _wanted(
    service: ServiceFacts, groups: Iterable[tuple[EndpointGroup, list[Endpoint]]], present: Mapping[str, Item[Any]]
) -> CooperativeWork[dict[str, DesiredSlice]]:
    """Compute the slices of all groups, by name.

    Yields after each group: where every pod resolves a port name differently, there are as many groups as pods.
    """
    wanted: dict[str, DesiredSlice] = {}
    numbered = _by_prefix(present)
    for group, endpoints in groups:
        # With the uid in the name: slices of an earlier Service of the name are never taken over.
        prefix = name_of(service.metadata.name, service.metadata.uid, group)
        by_uid = {each.uid: each.document for each in endpoints}
        shares = {number: _members(item) for number, item in numbered.get(prefix, {}).items()}
        for number, members in shared_out(shares, by_uid).items():
            name = f"{prefix}-{number}"
            wanted[name] = DesiredSlice(name, service, group, tuple(by_uid[uid] for uid in members))
        yield
    return wanted


def _by_prefix(present: Mapping[str, Item[Any]]) -> dict[str, dict[int, Item[Any]]]:
    """Group slices by name prefix, which their group determines, and by their number in the group."""
    found: dict[str, dict[int, Item[Any]]] = {}
    for name, item in present.items():
        prefix, _, number = name.rpartition("-")
        index = whole_number(number, _MAX_INDEX)
        if index is not None:
            found.setdefault(prefix, {})[index] = item
    return found


def _members(item: Item[Any]) -> list[str]:
    return [each["targetRef"]["uid"] for each in item.object.get("endpoints") or ()]


def _matches(known: JsonObject, wanted: JsonObject, exactly: bool) -> bool:
    """Return True if a slice has the wanted content.

    Extra labels and annotations count as a difference only if `exactly`.
    """
    if any((known.get(field) or []) != wanted[field] for field in ("endpoints", "ports")):
        return False
    pairs = [(known["metadata"].get(field) or {}, wanted["metadata"][field]) for field in ("labels", "annotations")]
    return all(actual == due if exactly else actual.items() >= due.items() for actual, due in pairs)
