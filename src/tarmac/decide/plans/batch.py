"""Plans several Workloads of one file in sequence, each as if the ones before it had been applied.

The Instances and Pods that a plan would create are overlaid on the snapshot, on their nodes, and those it would delete
are removed. So the next Workload finds the room that nodes and quotas would then have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import msgspec

from tarmac.api.catalog import Catalog
from tarmac.api.compute.explanations import Plan
from tarmac.api.compute.strategies import WorkloadStrategy
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode, encode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference
from tarmac.decide.derived.instances import instance_document
from tarmac.decide.plans.addressplans import plan_anycast, wants_anycast
from tarmac.decide.plans.difference import Difference, planned_uid
from tarmac.decide.plans.others import resource_of, stored_form
from tarmac.decide.plans.priorities import Rank, rank_of
from tarmac.decide.plans.room import planned_pod
from tarmac.decide.plans.workload import differences, plan_workload
from tarmac.decide.snapshot.lookup import SnapshotLookup
from tarmac.decide.snapshot.snapshot import INSTANCES, PODS, WORKLOADS, Encoded, Objects


def read_workloads(
    snapshot: Objects, objects: Iterable[JsonObject], catalog: Catalog, namespace: str
) -> list[Workload]:
    """Return the Workloads among the objects of a file, in their stored form. Raises BadRequest, Invalid."""
    found: list[Workload] = []
    strategy = WorkloadStrategy(SnapshotLookup(snapshot))
    for each in objects:
        resource = resource_of(catalog, each)
        if resource is not None and resource.bucket == WORKLOADS.resource:
            obj = stored_form(replace(resource, strategy=strategy), each)
            obj["metadata"].setdefault("namespace", namespace)
            found.append(as_known(snapshot, obj))
    return found


def as_known(snapshot: Objects, obj: JsonObject) -> Workload:
    """Return a Workload with the uid and status of the existing one of that name, if there is one."""
    metadata = obj["metadata"]
    known = WORKLOADS.get(snapshot, f"{metadata['namespace']}/{metadata['name']}")
    workload = decode(Workload, {**obj, "status": None})
    workload.metadata.uid = known.metadata.uid if known is not None else ""
    workload.status = known.status if known is not None else None
    return workload


def carried_out(snapshot: Objects, workloads: Iterable[Workload], without: Collection[str] = ()) -> Objects:
    """Return the snapshot after applying all the Workloads, one after another."""
    for workload in workloads:
        snapshot = _made(snapshot, differences(snapshot, workload, without))
    return snapshot


def planned_workload(
    snapshot: Objects, before: Iterable[Workload], workload: Workload, without: Collection[str] = ()
) -> Plan:
    """Return the plan of an accepted Workload after those before it, with its anycast addresses."""
    snapshot = carried_out(snapshot, before, without)
    cities = plan_workload(snapshot, workload, without)
    if not wants_anycast(workload):
        return Plan(accepted=True, cities=cities)
    after = carried_out(snapshot, [workload], without)
    return Plan(accepted=True, cities=cities, anycast=plan_anycast(after, workload))


def _made(snapshot: Objects, found: Sequence[Difference]) -> Objects:
    instances = dict(snapshot.objects.get(INSTANCES.resource, {}))
    pods = dict(snapshot.objects.get(PODS.resource, {}))
    for each in found:
        _take_away(each, instances, pods)
        rank = rank_of(snapshot, each.deployment.spec.template.spec.priority_class_name)
        _add(snapshot, each, rank, instances, pods)
    changed = {**snapshot.objects, INSTANCES.resource: instances, PODS.resource: pods}
    return Objects(snapshot.now, changed)


def _take_away(found: Difference, instances: dict[str, Encoded], pods: dict[str, Encoded]) -> None:
    going = [f"{found.deployment.metadata.namespace}/{view.name}" for view in found.going]
    for key in going:
        instances.pop(key, None)
    for key in (*going, *found.victims):
        pods.pop(key, None)


def _add(
    snapshot: Objects, found: Difference, rank: Rank, instances: dict[str, Encoded], pods: dict[str, Encoded]
) -> None:
    location = LocationReference(found.location)
    for ordinal in found.granted:
        instance = instance_document(found.deployment, location, ordinal, found.goal.template_hash, (), {})
        key, uid = f"{instance.metadata.namespace}/{instance.metadata.name}", planned_uid(found.deployment, ordinal)
        instances[key] = _encoded(encode(instance))
        if uid in found.placed:
            pod = planned_pod(snapshot, instance, found.amounts)
            pod["metadata"]["uid"] = uid
            pod["spec"] |= {"nodeName": found.placed[uid], "priority": rank.value}
            pods[key] = _encoded(pod)


def _encoded(obj: JsonObject) -> bytes:
    return msgspec.json.encode(obj, enc_hook=str)
