"""Plans locally, for a server that has Tarmac's kinds only as CRDs: validation first, then the plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from tarmac.api.catalog import Catalog, build_catalog
from tarmac.api.compute.explanations import Cause, Plan
from tarmac.api.decode import check_object
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.ingress.plans import IngressPlan
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.plans import (
    as_known,
    laid_over,
    plan_external,
    plan_ingress,
    planned_workload,
    read_workloads,
    resource_of,
)
from tarmac.decide.snapshot.lookup import SnapshotLookup
from tarmac.decide.snapshot.snapshot import WORKLOADS as KNOWN
from tarmac.decide.snapshot.snapshot import Objects, Snapshot


def plan_here(
    world: Objects, workload: JsonObject, without: Collection[str], others: Collection[JsonObject] = ()
) -> Plan:
    """Return the plan of a manifest, as if the other objects existed."""
    metadata, catalog = workload["metadata"], build_catalog()
    known = _known(world, KNOWN.resource, workload)
    try:
        world = laid_over(world, others, catalog, metadata["namespace"])
        before = read_workloads(world, others, catalog, metadata["namespace"])
        _check(build_catalog(SnapshotLookup(world)), workload, known)
    except Invalid as error:
        return Plan(False, causes_of(error))
    lost = {city.strip().upper() for each in without for city in each.split(",") if city.strip()}
    return planned_workload(world, before, as_known(world, workload), lost)


def plan_external_here(world: Objects, obj: JsonObject, others: Collection[JsonObject] = ()) -> ExternalPlan:
    """Return the plan of an ExternalService or a SourceIPClaim, as if the other objects existed."""
    catalog, bucket = build_catalog(), f"{SUBMARINER}/{obj['kind'].lower()}s"
    try:
        _check(catalog, obj, _known(world, bucket, obj))
        return plan_external(world, bucket, obj, others, catalog)
    except Invalid as error:
        return ExternalPlan(False, causes_of(error))


def plan_ingress_here(world: Objects, obj: JsonObject, others: Collection[JsonObject] = ()) -> IngressPlan:
    """Return the plan of a Service, an AddressPool, a PublicAddress or a BGPPeer, as if the other objects existed."""
    catalog = build_catalog()
    found = resource_of(catalog, obj)
    assert found is not None, "it is of a kind that is planned"
    try:
        _check(catalog, obj, _known(world, found.bucket, obj))
        return plan_ingress(world, found.bucket, obj, others, catalog)
    except Invalid as error:
        return IngressPlan(accepted=False, causes=causes_of(error))


def causes_of(error: Invalid) -> list[Cause]:
    """Return the reasons why a manifest is rejected, by field."""
    causes = (error.details or {}).get("causes") or [{"message": error.message}]
    return [Cause(each.get("field", ""), each.get("reason", ""), each["message"]) for each in causes]


def _check(catalog: Catalog, obj: JsonObject, known: JsonObject | None) -> Resource:
    """Bring the manifest into the stored form, in place; returns its resource. Raises Invalid."""
    resource = resource_of(catalog, obj)
    assert resource is not None, "it is of a kind that is planned"
    strategy = resource.strategy
    check_object(resource, obj)
    strategy.default(obj)
    with FieldErrors() as errors:
        if known is None:
            strategy.validate(obj, errors)
        else:
            strategy.validate_update(obj, known, errors)
    if errors:
        raise invalid(resource.group, resource.kind, obj["metadata"]["name"], errors)
    return resource


def _known(world: Snapshot, resource: str, obj: JsonObject) -> JsonObject | None:
    metadata = obj["metadata"]
    key = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    raw = world.get(resource, key)
    return msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else None
