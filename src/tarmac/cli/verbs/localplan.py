"""A plan made here, for a server that knows our kinds only as CRDs: our own rules first, then the plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from tarmac.api.catalog import build_catalog
from tarmac.api.compute.whyandplan import Cause, Plan
from tarmac.api.decode import check_object
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import Invalid, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.client.targets.typed import WORKLOADS
from tarmac.decide.plans import as_known, carried_out, laid_over, plan_workload, read_workloads
from tarmac.decide.snapshot.lookup import SnapshotLookup
from tarmac.decide.snapshot.snapshot import WORKLOADS as KNOWN
from tarmac.decide.snapshot.snapshot import Objects, Snapshot


def plan_here(
    world: Objects, workload: JsonObject, without: Collection[str], others: Collection[JsonObject] = ()
) -> Plan:
    """The plan of a manifest, as if the others were there."""
    metadata, catalog = workload["metadata"], build_catalog()
    raw = world.get(KNOWN.resource, f"{metadata['namespace']}/{metadata['name']}")
    known: JsonObject | None = msgspec.json.decode(raw, type=dict[str, Any]) if raw is not None else None
    try:
        world = laid_over(world, others, catalog, metadata["namespace"])
        before = read_workloads(world, others, catalog, metadata["namespace"])
        _check(world, workload, known)
    except Invalid as error:
        return _refused(error)
    lost = {city.strip().upper() for each in without for city in each.split(",") if city.strip()}
    world = carried_out(world, before, lost)
    return Plan(accepted=True, cities=plan_workload(world, as_known(world, workload), lost))


def _refused(error: Invalid) -> Plan:
    causes = (error.details or {}).get("causes") or [{"message": error.message}]
    return Plan(False, [Cause(each.get("field", ""), each.get("reason", ""), each["message"]) for each in causes])


def _check(world: Snapshot, workload: JsonObject, known: JsonObject | None) -> None:
    """Bring the manifest into the stored form, in place. Raises Invalid."""
    catalog = build_catalog(SnapshotLookup(world))
    resource = catalog.find(WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural)
    assert isinstance(resource, Resource)
    strategy = resource.strategy
    check_object(resource, workload)
    strategy.default(workload)
    with FieldErrors() as errors:
        if known is None:
            strategy.validate(workload, errors)
        else:
            strategy.validate_update(workload, known, errors)
    if errors:
        raise invalid(resource.group, resource.kind, workload["metadata"]["name"], errors)
