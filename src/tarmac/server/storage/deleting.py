"""Delete: at once, after a grace period, or when the last finalizer has been removed.

Deleting an object with a finalizer, or with a grace period that its node must confirm, only sets `deletionTimestamp`;
the update that releases the last hold removes it (`updating.is_released`). Propagation policies are finalizers that the
garbage collector removes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, conflict, invalid
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.duration import MAX_SECONDS
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request, Response
from tarmac.server.admission.chain import Attributes
from tarmac.server.printing.answers import document
from tarmac.server.requestinfo import boolean
from tarmac.server.storage.bodies import read_delete_options
from tarmac.server.storage.metadata import FOREGROUND, ORPHAN
from tarmac.server.storage.options import WriteOptions, check_dry_run, integer
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import until_visible
from tarmac.store.interface import Entry, Missing, RevisionConflict, splice

_MAX_ATTEMPTS = 5
_POLICIES = ("Foreground", "Background", "Orphan")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Decoded options of one DELETE."""

    grace_period: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    policy: str | None = None
    orphan: bool | None = None
    dry_run: bool = False


PLAIN = DeleteOptions()


def delete_options(request: Request) -> DeleteOptions:
    """Read the options from the body, else from the query. Raises Invalid."""
    if request.body:
        given = read_delete_options(request)
    elif request.query:
        given = _from_query(request)
    else:
        return PLAIN
    return delete_options_from(given)


def delete_options_from(given: JsonObject, dry_run: bool = False) -> DeleteOptions:
    """Convert a decoded DeleteOptions. Raises Invalid."""
    errors = FieldErrors()
    policy, orphan = given.get("propagationPolicy"), given.get("orphanDependents")
    if policy is not None and orphan is not None:
        errors.invalid("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set")
    elif policy is not None and policy not in _POLICIES:
        errors.not_supported("propagationPolicy", policy, [*_POLICIES, "nil"])
    dry_run = check_dry_run(given.get("dryRun") or [], errors) or dry_run
    if errors:
        raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
    preconditions: Mapping[str, Any] = given.get("preconditions") or {}
    grace = given.get("gracePeriodSeconds")
    # kube-apiserver, too, reads a negative period as one second.
    grace = 1 if grace is not None and grace < 0 else grace
    return DeleteOptions(grace, preconditions.get("uid"), preconditions.get("resourceVersion"), policy, orphan, dry_run)


def _from_query(request: Request) -> JsonObject:
    return {
        "gracePeriodSeconds": integer(request, "gracePeriodSeconds"),
        "propagationPolicy": request.param("propagationPolicy") or None,
        "orphanDependents": boolean(request, "orphanDependents"),
        "dryRun": request.params().get("dryRun"),
    }


async def delete(storage: ResourceStorage, request: Request) -> Response:
    """DELETE of one object."""
    options = delete_options(request)
    call = WriteCall(storage, request, WriteOptions(options.dry_run))
    entry, gone = await remove(call, call.info.name, call.key, options)
    if storage.strategy.orphan_warning and options.orphan is None and options.policy is None:
        call.warnings.append(storage.strategy.orphan_warning)
    if not gone or storage.strategy.returns_deleted:
        # 202 only for `orphanDependents: false`, the old form of background deletion, as in Kubernetes
        status = 202 if not gone and options.orphan is False else 200
        return storage.answer(request, entry, status, call.warnings)
    return document(request, _success(storage, entry), 200, call.warnings)


def _success(storage: ResourceStorage, entry: Entry) -> JsonObject:
    metadata = storage.load(entry)["metadata"]
    resource = storage.resource
    details: JsonObject = {"name": metadata["name"]}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.plural, "uid": metadata["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


async def remove(call: WriteCall, name: str, key: str, options: DeleteOptions) -> tuple[Entry, bool]:
    """Delete or mark one object. Return its last or marked version, and whether it was removed."""
    storage = call.storage
    for _ in range(_MAX_ATTEMPTS):
        # Read in each attempt, with everything decided on it: a lost race may have added a finalizer.
        entry = storage.head(key)
        if entry is None:
            raise storage.not_found(name)
        try:
            return await _remove(call, name, entry, options)
        except (RevisionConflict, Missing):
            continue
    raise storage.conflict(name)


async def _remove(call: WriteCall, name: str, entry: Entry, options: DeleteOptions) -> tuple[Entry, bool]:
    storage, store = call.storage, call.storage.store
    obj = storage.load(entry)
    check_preconditions(storage, obj, options)
    # Before `_plan`, which marks `obj` in place: plugins must see the stored state.
    _admit(call, name, obj)
    plan = _plan(storage, obj, options)
    if plan == "pending":
        # The version that the answer shows may not be durable yet; a crash would take it back.
        await until_visible(store, entry)
        return entry, False
    if plan == "marked":
        value = storage.encode(obj)
        if options.dry_run:
            return Entry(entry.name, entry.revision, entry.created, splice(value, entry.revision)), False
        return await store.update(storage.bucket, entry.name, value, entry.revision), False
    if plan == "ended":
        # A grace period of zero is written as a mark before the delete; watchers see both. After a crash between the
        # two writes the object stays marked with a grace period of zero, and the next delete, by the node or a user,
        # removes it.
        if options.dry_run:
            return Entry(entry.name, entry.revision, entry.created, splice(storage.encode(obj), entry.revision)), True
        entry = await store.update(storage.bucket, entry.name, storage.encode(obj), entry.revision)
    if options.dry_run:
        return entry, True
    # With the revision: a finalizer that another server adds meanwhile keeps the object.
    return await store.delete(storage.bucket, entry.name, entry.revision), True


def _admit(call: WriteCall, name: str, obj: JsonObject) -> None:
    info, admission = call.info, call.storage.services.admission
    place = (info.subresource, obj["metadata"].get("namespace", ""), name)
    attributes = Attributes("DELETE", call.storage.resource, *place, None, obj, call.user, call.options.dry_run)
    admission.admit(attributes)
    admission.validate(attributes)
    call.warnings += attributes.warnings


def check_preconditions(storage: ResourceStorage, obj: JsonObject, options: DeleteOptions) -> None:
    """Reject the delete unless uid and resource version match the client's preconditions. Raises ApiError."""
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        raise _mismatch(storage, metadata, "UID", options.uid, metadata["uid"], "deleted and then recreated")
    version = options.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        raise _mismatch(storage, metadata, "ResourceVersion", version, metadata["resourceVersion"], "modified")


def _mismatch(
    storage: ResourceStorage, metadata: JsonObject, what: str, given: str, actual: str, perhaps: str
) -> ApiError:
    why = (
        f"the {what} in the precondition ({given}) does not match the {what} in record ({actual}). "
        f"The object might have been {perhaps}"
    )
    return conflict(storage.resource.group, storage.resource.kind, metadata["name"], why)


def _plan(storage: ResourceStorage, obj: JsonObject, options: DeleteOptions) -> str:
    """Decide how to delete `obj`, and mark it in place.

    `gone`: delete it; `marked`: write it; `ended`: write it, then delete it; `pending`: write nothing, a finalizer or a
    grace period has to end first.
    """
    graceful = _grace(storage, obj, options)
    if graceful is None:
        return "pending"
    metadata = obj["metadata"]
    present = metadata.get("finalizers") or []
    finalizers = _finalizers(present, options, storage.strategy.orphans_dependents)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    if storage.strategy.is_held(obj):
        if "deletionTimestamp" in metadata:
            return "pending"
        metadata["deletionTimestamp"] = rfc3339(storage.services.clock.now())
        storage.strategy.mark_deleted(obj)
        return "marked"
    if finalizers and not graceful:
        return "marked" if _mark(metadata, storage.services.clock.now()) or finalizers != present else "pending"
    if finalizers or (graceful and metadata["deletionGracePeriodSeconds"] > 0):
        return "marked"
    return "ended" if graceful else "gone"


def _grace(storage: ResourceStorage, obj: JsonObject, options: DeleteOptions) -> bool | None:
    """Start or shorten a grace period. False: the kind or this state has none; None: one is running already."""
    metadata, now = obj["metadata"], storage.services.clock.now()
    period = storage.strategy.grace_period(obj, options.grace_period)
    if period is None:
        return False
    running = metadata.get("deletionGracePeriodSeconds")
    # Kubernetes accepts longer periods, so they are accepted and capped here: a pod whose spec has one must stay
    # deletable by clients that send no period.
    period = min(period, MAX_SECONDS)
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = rfc3339(now + period)
        metadata["deletionGracePeriodSeconds"] = period
        _next_generation(metadata)
        return True
    if not running:
        return False
    # A running period only shrinks: a second DELETE, or one without a period, must not postpone the end.
    if options.grace_period is None or options.grace_period >= running:
        return None
    period = options.grace_period
    # Counts from the first DELETE: `deletionTimestamp` is the end of the running period, not its beginning.
    end = parse_rfc3339(metadata["deletionTimestamp"]) - running + period
    if end < now:
        end, period = now, min(period, 1)
    metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"] = rfc3339(end), period
    return True


def _mark(metadata: JsonObject, now: float) -> bool:
    """Set `deletionTimestamp` to now at the latest, without a grace period. Return whether that changes the object."""
    if "deletionTimestamp" not in metadata:
        _next_generation(metadata)
    elif parse_rfc3339(metadata["deletionTimestamp"]) <= now and metadata.get("deletionGracePeriodSeconds") == 0:
        return False
    else:
        now = min(now, parse_rfc3339(metadata["deletionTimestamp"]))
    metadata["deletionTimestamp"] = rfc3339(now)
    metadata["deletionGracePeriodSeconds"] = 0
    return True


def _next_generation(metadata: JsonObject) -> None:
    if metadata.get("generation"):
        metadata["generation"] += 1


def _finalizers(present: list[str], options: DeleteOptions, orphans: bool) -> list[str]:
    """Return the finalizers after applying the propagation policy; `orphans`: the policy of the kind is to orphan."""
    if options.orphan is None and options.policy is None:
        return [*present, ORPHAN] if orphans and not {ORPHAN, FOREGROUND} & set(present) else present
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    if options.orphan or options.policy == "Orphan":
        kept.append(ORPHAN)
    elif options.policy == "Foreground":
        kept.append(FOREGROUND)
    return present if set(kept) == set(present) else kept
