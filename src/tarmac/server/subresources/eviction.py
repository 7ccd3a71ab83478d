"""Eviction: deletes a pod unless that would violate its disruption budget.

The budget is a PodDisruptionBudget that selects the pod. Its controller computes the number of allowed disruptions; an
eviction takes one, records the pod in the budget's status so that the controller does not count it again, and deletes
the pod. A pod that may be deleted without budget only because it is not ready is deleted with a precondition on its
version: if it changes meanwhile, the check is repeated.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from tarmac.api.conditions import replaced
from tarmac.api.decode import decode_kind
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, BadRequest, Conflict, TooManyRequests, forbidden
from tarmac.decide.eviction import budgets_of, ignores, is_counted, needs_no_budget
from tarmac.http.messages import Request, Response
from tarmac.server.patch import managed
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.deleting import DeleteOptions, check_preconditions, delete_options_from, remove
from tarmac.server.storage.metadata import place
from tarmac.server.storage.options import WriteOptions, write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.subresources.binding import SUCCESS
from tarmac.store.interface import Entry, Missing, RevisionConflict

_MAX_DISRUPTED = 2000
_MAX_ATTEMPTS = 20
_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def eviction_route(storage: ResourceStorage, budgets: ResourceStorage) -> Route:
    """POST of `pods/NAME/eviction`."""
    return {"create": partial(_evict, storage, budgets)}


async def _evict(storage: ResourceStorage, budgets: ResourceStorage, request: Request) -> Response:
    options = write_options("CreateOptions", request)
    content_type = request.headers.get("content-type", "")
    eviction, warnings = decode_kind("policy", "v1", "Eviction", request.body, content_type, options.field_validation)
    name, metadata = request.info.name, eviction.get("metadata") or {}
    if metadata.get("name") != name:
        raise BadRequest("name in URL does not match name in Eviction object")
    place(storage.resource, metadata, request.info.namespace)
    deletion = delete_options_from(eviction.get("deleteOptions") or {}, options.dry_run)
    call = WriteCall(storage, request, WriteOptions(deletion.dry_run))
    call.admit("eviction", name, eviction)  # before charging the budget: a rejected eviction is free
    for _ in range(_MAX_ATTEMPTS):
        # The budget is charged before the delete. A kill in between costs one disruption until the controller sees that
        # the pod lives; the other order could exceed the budget.
        paid = await _spend_budget(call, budgets, deletion)
        # Before the delete: the owner learns the reason while the pod still exists.
        announced = await _announce(call)
        if paid:
            await remove(call, name, call.key, deletion)
        elif announced is None or not await _removed_as(call, announced, deletion):
            continue
        return document(request, SUCCESS, 201, [*warnings, *call.warnings])
    raise storage.conflict(name)


async def _removed_as(call: WriteCall, seen: Entry, deletion: DeleteOptions) -> bool:
    """Delete the pod unless it changed since `seen`: it may have become ready, and then needs budget."""
    # With the version: between the check and the delete, the pod may have become ready.
    version = deletion.resource_version or str(seen.revision)
    try:
        await remove(call, call.info.name, call.key, replace(deletion, resource_version=version))
    except Conflict:
        if deletion.resource_version is not None:
            raise
        return False
    return True


async def _spend_budget(call: WriteCall, budgets: ResourceStorage, deletion: DeleteOptions) -> bool:
    """Charge the budget. Return True if the pod may be deleted in any state, False if only in the state seen here."""
    storage = call.storage
    entry = storage.head(call.key)
    if entry is None:
        raise storage.not_found(call.info.name)
    pod = storage.load(entry)
    check_preconditions(storage, pod, deletion)  # before the budget is charged: it must not pay for a wrong pod
    if needs_no_budget(pod):
        return True
    found = list(budgets_of(pod, budgets.services.reader.list(budgets.bucket, f"{pod['metadata']['namespace']}/")))
    if len(found) > 1:
        raise ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            reason="",
        )
    if found and ignores(found[0], pod):
        return False
    if found:
        await _take_one(budgets, found[0], pod, call.options.dry_run)
    return True


async def _announce(call: WriteCall) -> Entry | None:
    """Set the pod's DisruptionTarget condition, for its owner.

    Return the pod's new version; None if it changed at the same time or is gone.
    """
    storage = call.storage
    entry = storage.head(call.key)
    if entry is None or call.options.dry_run:
        return entry
    pod = storage.load(entry)
    status = pod.setdefault("status", {})
    condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
    condition |= {"lastTransitionTime": storage.services.now(), "reason": "EvictionByEvictionAPI"}
    status["conditions"] = replaced(status.get("conditions"), condition | {"message": "Eviction API: evicting"})
    with suppress(RevisionConflict, Missing):  # the delete that follows handles it
        return await storage.store.update(storage.bucket, entry.name, storage.encode(pod), entry.revision)
    return None


async def _take_one(budgets: ResourceStorage, budget: JsonObject, pod: JsonObject, dry_run: bool) -> None:
    key = budgets.key(budget["metadata"]["namespace"], budget["metadata"]["name"])
    for _ in range(_MAX_ATTEMPTS):
        entry = budgets.head(key)
        if entry is None:
            return
        budget = budgets.load(entry)
        # On the newest version in every attempt: a concurrent eviction may have taken the last disruption.
        _check(budget)
        status = budget["status"]
        status["disruptionsAllowed"] -= 1
        now = budgets.services.now()
        status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = now
        if not status["disruptionsAllowed"]:
            _exhaust(budget, now)
        if dry_run:
            return
        managed.for_update(budgets.resource, budgets.load(entry), budget, "kube-apiserver", "status", now)
        try:
            await budgets.store.update(budgets.bucket, key, budgets.encode(budget), entry.revision)
        except (RevisionConflict, Missing):  # gone: another server of the store has deleted it
            continue
        return
    raise _refused(f"The disruption budget {budget['metadata']['name']} is still being processed by the server.", 10)


def _exhaust(budget: JsonObject, now: str) -> None:
    """Set the budget's condition DisruptionAllowed to False."""
    status = budget["status"]
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": ""}
    condition |= {"observedGeneration": status.get("observedGeneration", 0), "lastTransitionTime": now}
    status["conditions"] = replaced(status.get("conditions"), condition)


def _check(budget: JsonObject) -> None:
    metadata, status = budget["metadata"], budget.setdefault("status", {})
    name = metadata["name"]
    if not is_counted(budget):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
    allowed = status.setdefault("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or {}) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("policy", "poddisruptionbudget", name, why)
    if allowed == 0:
        desired, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        if current <= desired:
            raise _refused(f"The disruption budget {name} needs {desired} healthy pods and has {current} currently", 0)
        raise _refused(f"The disruption budget {name} does not allow evicting pods currently", 0)


def _refused(why: str, retry_after: int) -> ApiError:
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    headers = [("Retry-After", str(retry_after or 1))]
    return TooManyRequests(_REFUSED, details=details, headers=headers)
