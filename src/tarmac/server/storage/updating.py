"""Update: replaces an object, or a part of it, without losing concurrent writes.

Every update is a read-modify-write against the newest accepted version. PUT, the patches and the subresources differ
only in how they compute the new object (`Change`) and in their rules (`UpdateRules`); the rest is shared here. An
update that changes nothing writes nothing and keeps the resource version. An update that removes the last finalizer of
an object under deletion deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tarmac.api.decode.media import PROTOBUF, body_type
from tarmac.api.kubernetes.extensionvalues import carry_over, has_own_fields
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, BadRequest, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request, Response
from tarmac.server.admission.chain import Attributes
from tarmac.server.patch import managed
from tarmac.server.storage import metadata as meta
from tarmac.server.storage.bodies import read_object
from tarmac.server.storage.creating import create_object
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.store.interface import Entry, Missing, RevisionConflict, Store, splice

_MAX_ATTEMPTS = 5

Change = Callable[[JsonObject, Entry], JsonObject]
"""Computes the new object from the old one, which it must not modify. Called again after a lost race."""


class UpdateRules(NamedTuple):
    """Per-endpoint update rules: which fields an update through the main resource or a subresource may change."""

    prepare: Callable[[JsonObject, JsonObject], None]
    validate: Callable[[JsonObject, JsonObject, FieldErrors], None]
    applied: bool = False  # server-side apply has recorded the managers already


def rules_of(storage: ResourceStorage, subresource: str = "") -> UpdateRules:
    """Return the rules of the main resource, or of its status."""
    strategy = storage.strategy
    if subresource == "status":
        return UpdateRules(strategy.prepare_for_status_update, strategy.validate_status_update)
    if strategy.has_status and not storage.resource.native:
        return UpdateRules(_keeping_status(storage), strategy.validate_update)
    return UpdateRules(strategy.prepare_for_update, strategy.validate_update)


def _keeping_status(storage: ResourceStorage) -> Callable[[JsonObject, JsonObject], None]:
    def prepare(new: JsonObject, old: JsonObject) -> None:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)
        storage.strategy.prepare_for_update(new, old)

    return prepare


async def update(storage: ResourceStorage, rules: UpdateRules, request: Request) -> Response:
    """PUT of the main resource, or of a subresource that takes the whole object."""
    call = WriteCall(storage, request, write_options("UpdateOptions", request))

    def change(old: JsonObject, entry: Entry) -> JsonObject:
        # Decoded in each attempt: admission and the strategy have changed the object of a lost one in place.
        new = read_object(call)
        if storage.resource.native and has_own_fields(entry.raw) and _knows_no_own_fields(call, new):
            # client-go drops fields that its types lack. Without this line, each PUT of a stock controller would clear
            # ours.
            carry_over(storage.resource.schema, new, old)
        check_name(call, new)
        _check_uid(call, new, old["metadata"]["uid"])
        check_version(call, new, old)
        return new

    creates = storage.strategy.allow_create_on_update and not call.info.subresource
    # A create by another request in between makes `create_object` fail with AlreadyExists, never overwrite.
    if creates and storage.head(call.key) is None:
        obj = read_object(call)
        check_name(call, obj)
        _check_uid(call, obj, "")
        # The object is gone, so no version can be the current one; a create with one is refused.
        obj["metadata"].pop("resourceVersion", None)
        return storage.answer(request, await create_object(call, obj), 201, call.warnings)
    entry = await rewrite(call, change, rules)
    return storage.answer(request, entry, 200, call.warnings)


def _knows_no_own_fields(call: WriteCall, new: JsonObject) -> bool:
    """Return whether the client cannot know Tarmac's extension fields: protobuf has no numbers for them."""
    if body_type(call.request.headers.get("content-type", ""), native=True) == PROTOBUF:
        return True
    return call.info.subresource != "status" and call.storage.strategy.lacks_extension_fields(new)


async def rewrite(call: WriteCall, change: Change, rules: UpdateRules) -> Entry:
    """Apply a change to the object in the URL, retrying after lost races.

    Raises NotFound, Conflict, and the errors of validation and admission.
    """
    guards = call.guards("UPDATE")
    if guards:
        entry = await call.storage.services.guard_locks.write(guards, lambda: _rewrite(call, change, rules, guards))
    else:
        entry = await _rewrite(call, change, rules, guards)
    # The update is stored already: a cancellation here loses the response, never the write.
    for waiting in call.settling("UPDATE"):
        await waiting
    return entry


async def _rewrite(call: WriteCall, change: Change, rules: UpdateRules, guards: Sequence[str]) -> Entry:
    storage = call.storage
    for _ in range(_MAX_ATTEMPTS):
        # Nothing is awaited from here until the store has accepted the write. On a store of a single server no other
        # write can come between, so the amounts that admission counted stay valid.
        entry = storage.head(call.key)
        if entry is None:
            raise storage.not_found(call.info.name)
        # Warnings of a lost attempt are about a version that was never replaced.
        call.warnings.clear()
        # Decoded anew in each attempt: admission and strategies modify the objects of a lost one.
        old = storage.load(entry)
        new = change(old, entry)
        try:
            return await _revise(call, entry, old, new, rules, guards)
        except (RevisionConflict, Missing):
            continue  # lost a race against another server; only with a shared store
    raise storage.conflict(call.info.name)


def check_name(call: WriteCall, obj: JsonObject) -> None:
    """Reject an object whose name is not the one in the URL. Raises BadRequest."""
    metadata = obj.setdefault("metadata", {})
    name, wanted = metadata.get("name"), call.info.name
    if not name:
        raise BadRequest(f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided")
    if name != wanted:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({wanted})")


def check_version(call: WriteCall, new: JsonObject, old: JsonObject) -> None:
    """Reject an update based on an outdated version; kinds may allow updates without a version. Raises ApiError."""
    storage, name = call.storage, call.info.name
    version = new["metadata"].get("resourceVersion")
    # kube-apiserver parses the version as a number, where 0 means that the client gave none.
    if version and version != "0":
        if version != old["metadata"]["resourceVersion"]:
            raise storage.conflict(name)
    elif not (storage.resource.native and storage.strategy.allow_unconditional_update):
        errors = FieldErrors()
        errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(storage.resource.group, storage.resource.plural, name, errors)


def _check_uid(call: WriteCall, new: JsonObject, actual: str) -> None:
    given = new["metadata"].get("uid")
    if given and given != actual:
        raise precondition_failed(call.storage, call.info.name, call.key, "UID", given, actual)


def precondition_failed(storage: ResourceStorage, name: str, key: str, what: str, given: str, actual: str) -> ApiError:
    """Return the Conflict for an object that is not the one the client means, worded as Kubernetes' storage does."""
    resource = storage.resource
    place = resource.plural if resource.native else f"{resource.group}/{resource.plural}"
    why = f"Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}"
    cause = f"invalid object, Code: 4, Key: /registry/{place}/{key}, ResourceVersion: 0"
    return storage.conflict(name, f"StorageError: {cause}, AdditionalErrorMsg: {why}")


async def _revise(
    call: WriteCall, entry: Entry, old: JsonObject, new: JsonObject, rules: UpdateRules, guards: Sequence[str]
) -> Entry:
    storage, services = call.storage, call.storage.services
    meta.place(storage.resource, new["metadata"], call.info.namespace)
    if not rules.applied:
        # Before admission and the strategy: a field that either of them sets must not get the client as its owner.
        managed.for_update(storage.resource, old, new, call.manager, call.info.subresource, services.now())
    attributes = _attributes(call, new, old)
    services.admission.admit(attributes)
    _prepare(call, new, old, rules)
    _validate(call, new, old, rules)
    services.admission.validate(attributes)
    # Only after both phases: a rejected write does not report the warnings of its plugins.
    call.warnings += attributes.warnings
    call.warnings += storage.strategy.warnings(new, old)
    return await _store(call, entry, old, new, guards)


def _attributes(call: WriteCall, new: JsonObject, old: JsonObject) -> Attributes:
    info, storage = call.info, call.storage
    place = (info.subresource, info.namespace, info.name)
    return Attributes("UPDATE", storage.resource, *place, new, old, call.user, call.options.dry_run)


def _prepare(call: WriteCall, new: JsonObject, old: JsonObject, rules: UpdateRules) -> None:
    storage = call.storage
    meta.carry_over(new["metadata"], old["metadata"])
    rules.prepare(new, old)
    # Again after the strategy, which may have touched system fields: they must stay those of the stored object.
    meta.carry_over(new["metadata"], old["metadata"])
    if storage.counts_generations and storage.has_new_generation(new, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _validate(call: WriteCall, new: JsonObject, old: JsonObject, rules: UpdateRules) -> None:
    with FieldErrors() as errors:
        meta.validate_update(new["metadata"], old["metadata"], errors)
        rules.validate(new, old, errors)
    if errors:
        raise call.storage.invalid(call.info.name, errors)


async def _store(call: WriteCall, entry: Entry, old: JsonObject, new: JsonObject, guards: Sequence[str]) -> Entry:
    storage, store = call.storage, call.storage.store
    gone = is_released(storage.strategy, new, old)
    if not gone and _unchanged(new, old):
        # The compared version may be accepted but not durable yet: it could still fail.
        await until_visible(store, entry)
        return entry
    # Before the dry run returns, so that it fails on a size that the write itself would fail on.
    value = storage.encode_checked(new, len(entry.raw))
    if call.options.dry_run:
        return Entry(entry.name, entry.revision, entry.created, splice(value, entry.revision))
    if gone:  # watchers get the last stored state, the client its own change, at the version it replaced
        # Compared with the version that was read: a finalizer added by another server meanwhile must keep the object.
        await store.delete(storage.bucket, entry.name, entry.revision)
        return Entry(entry.name, entry.revision, entry.created, splice(value, entry.revision))
    # The expected revision makes it a compare-and-swap: a concurrent write raises RevisionConflict and `_rewrite`
    # starts over.
    return await store.update(storage.bucket, entry.name, value, entry.revision, guards=guards)


def is_released(strategy: Strategy, new: JsonObject, old: JsonObject) -> bool:
    """Return whether a deleted object can be removed: no finalizer is left and no grace period runs."""
    metadata = old["metadata"]
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in metadata or strategy.is_held(new):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _unchanged(new: JsonObject, old: JsonObject) -> bool:
    """Return whether there is nothing to write. Times in managedFields do not count."""
    fields = (new.keys() | old.keys()) - {"metadata", "kind", "apiVersion"}
    if any(new.get(field) != old.get(field) for field in fields):
        return False
    ours, theirs = new["metadata"], old["metadata"]
    fields = (ours.keys() | theirs.keys()) - {"managedFields", "resourceVersion"}
    if any(ours.get(field) != theirs.get(field) for field in fields):
        return False
    return _timeless(ours.get("managedFields")) == _timeless(theirs.get("managedFields"))


def _timeless(entries: Sequence[JsonObject] | None) -> list[JsonObject]:
    return [{field: value for field, value in entry.items() if field != "time"} for entry in entries or ()]


async def until_visible(store: Store, entry: Entry) -> None:
    """Wait until an accepted version is durable, so that no response reports state that a crash could undo."""
    waiting = store.settled(entry.revision)
    if waiting is not None:
        await waiting
