"""Create: from a decoded object to a stored one.

The order is Kubernetes' own and observable: field managers are recorded before admission changes anything, metadata is
stamped and the strategy prepares the object before validation, and every broken rule is reported at once. The object
that was validated is the one that is encoded.

A guarded write that lost against a write of another server starts over from a copy of the request's object: values that
admission assigned, such as an address, may be taken by now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from copy import deepcopy

from tarmac.api.schema import JsonObject
from tarmac.api.status import AlreadyExists, ApiError, already_exists
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request, Response
from tarmac.server.admission.chain import Attributes
from tarmac.server.patch import managed
from tarmac.server.storage import metadata as meta
from tarmac.server.storage.bodies import read_object
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.store.interface import Entry, Exists, Overtaken

_MAX_NAME_ATTEMPTS = 8


async def create(storage: ResourceStorage, request: Request) -> Response:
    """POST to a collection."""
    call = WriteCall(storage, request, write_options("CreateOptions", request))
    entry = await create_object(call, read_object(call))
    return storage.answer(request, entry, 201, call.warnings)


async def create_object(call: WriteCall, obj: JsonObject, *, applied: bool = False) -> Entry:
    """Store a new object. `applied`: server-side apply has recorded the managers already."""
    guards = call.guards("CREATE")
    entry = await (_create_in_turn(call, obj, applied, guards) if guards else _create(call, obj, applied, guards))
    # The object is stored already, so a cancellation here loses the response, never the write.
    for waiting in call.settling("CREATE"):
        await waiting
    return entry


def _create_in_turn(call: WriteCall, obj: JsonObject, applied: bool, guards: Sequence[str]) -> Awaitable[Entry]:
    said = list(call.warnings)

    def attempt() -> Awaitable[Entry]:
        # An overtaken attempt has added its own warnings; without the reset the client would see them twice.
        call.warnings[:] = said
        return _create(call, deepcopy(obj), applied, guards)

    return call.storage.services.guard_locks.write(guards, attempt)


async def _create(call: WriteCall, obj: JsonObject, applied: bool, guards: Sequence[str]) -> Entry:
    storage, services = call.storage, call.storage.services
    place_new(call, obj)
    meta.wipe(obj["metadata"])
    if not applied:
        # Before admission: fields that plugins and the strategy set have no owner, so a later apply may take them
        # freely.
        managed.for_update(storage.resource, None, obj, call.manager, call.info.subresource, services.now())
    attributes = admission_attributes(call, obj)
    # From here to `_store` nothing is awaited: guarded admission counts on state that must not change before the store
    # accepts the write.
    services.admission.admit(attributes)
    metadata = obj["metadata"]
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    if generated:
        metadata["name"] = meta.generated_name(metadata["generateName"], services.randomness.suffix())
    # After admission: a plugin must not be able to choose the uid or the creation time.
    meta.stamp(metadata, services.randomness.uuid(), services.now())
    _prepare(storage, obj)
    _validate(call, obj)
    # Only now is a generated name known; validating plugins decide on the final name.
    attributes.name = metadata.get("name", "")
    services.admission.validate(attributes)
    call.warnings += attributes.warnings
    call.warnings += storage.strategy.warnings(obj, None)
    return await _store(call, obj, generated, guards)


def place_new(call: WriteCall, obj: JsonObject) -> None:
    """Put the object into the namespace of the URL and reject a resource version. Raises BadRequest, ApiError."""
    metadata = obj.setdefault("metadata", {})
    meta.place(call.storage.resource, metadata, call.info.namespace)
    if metadata.get("resourceVersion") not in (None, "", "0"):
        raise ApiError("resourceVersion should not be set on objects to be created", reason="")


def admission_attributes(call: WriteCall, obj: JsonObject) -> Attributes:
    """Return the admission attributes of a new object."""
    info = call.info
    name = obj["metadata"].get("name", "")
    resource, user, dry_run = call.storage.resource, call.user, call.options.dry_run
    made = Attributes("CREATE", resource, info.subresource, info.namespace, name, obj, None, user, dry_run)
    made.verb = info.verb
    return made


def _prepare(storage: ResourceStorage, obj: JsonObject) -> None:
    strategy = storage.strategy
    if strategy.has_status and not storage.resource.native:
        obj.pop("status", None)
    strategy.prepare_for_create(obj)
    if storage.counts_generations:
        obj["metadata"]["generation"] = 1


def _validate(call: WriteCall, obj: JsonObject) -> None:
    storage = call.storage
    with FieldErrors() as errors:
        meta.validate(storage.resource, obj["metadata"], errors)
        storage.strategy.validate(obj, errors)
    if errors:
        raise storage.invalid(obj["metadata"].get("name", ""), errors)


async def _store(call: WriteCall, obj: JsonObject, generated: bool, guards: Sequence[str]) -> Entry:
    storage, metadata = call.storage, obj["metadata"]
    name = metadata["name"]
    for _ in range(_MAX_NAME_ATTEMPTS if generated else 1):
        name = metadata["name"]
        key = storage.key(call.info.namespace, name)
        try:
            if not call.options.dry_run:
                return await storage.store.create(storage.bucket, key, storage.encode_checked(obj), guards=guards)
            # A dry run reserves nothing, so a later create of this name can still win.
            if storage.head(key) is None:
                return Entry(key, 0, 0, storage.encode_checked(obj))
        except Exists:
            if generated and guards:  # admission decided on outdated state
                raise Overtaken(f"{key} exists") from None
        if generated:
            metadata["name"] = meta.generated_name(metadata["generateName"], storage.services.randomness.suffix())
    raise _taken(call, name, generated)


def _taken(call: WriteCall, name: str, generated: bool) -> AlreadyExists:
    storage = call.storage
    error = already_exists(storage.resource.group, storage.resource.plural, name)
    holder = storage.head(storage.key(call.info.namespace, name))
    if holder is not None and "deletionTimestamp" in storage.load(holder)["metadata"]:
        error = AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    if generated:
        text = f"{error.message}, the server was not able to generate a unique name for the object"
        return AlreadyExists(text, details={**(error.details or {}), "retryAfterSeconds": 1})
    return error
