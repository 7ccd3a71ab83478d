"""Patch: JSON patch, merge patch, strategic merge, and server-side apply.

A patch without a resource version applies to the newest version and is retried on a conflict; one with a version loses
to any other write. Only apply may create an object.
"""

from __future__ import annotations

from tarmac.api.decode.strictness import joined
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest
from tarmac.http.messages import Request, Response
from tarmac.server.patch.apply import server_side_apply
from tarmac.server.patch.engine import (
    APPLY_PATCH,
    JSON_PATCH,
    STRATEGIC_PATCH,
    apply_patch,
    check_type,
    read_configuration,
)
from tarmac.server.storage.bodies import adopt
from tarmac.server.storage.creating import create_object
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import UpdateRules, check_name, check_version, rewrite
from tarmac.store.interface import Entry


async def patch(storage: ResourceStorage, rules: UpdateRules, request: Request) -> Response:
    """PATCH of an object, by any of the four types; an apply may also create it."""
    patch_type = check_type(storage.resource, request.headers.get("content-type", ""))
    is_apply = patch_type == APPLY_PATCH
    call = WriteCall(storage, request, write_options("PatchOptions", request, apply=is_apply))
    if is_apply:
        return await _apply(call, rules)
    body = request.body

    def change(old: JsonObject, entry: Entry) -> JsonObject:
        # A JSON patch works in place; the other types copy the parts they change and share the rest with the old
        # object.
        current = storage.load(entry) if patch_type == JSON_PATCH else {**old, "metadata": {**old["metadata"]}}
        patched, notes = apply_patch(storage.resource, patch_type, current, body)
        if patch_type == STRATEGIC_PATCH:  # kind and apiVersion of a strategic patch are ignored
            patched |= {"kind": storage.resource.kind, "apiVersion": storage.resource.api_version}
        new = adopt(call, patched, old, notes)
        check_name(call, new)
        # A patch that names no version has that of `old` here, and passes: only one with a version can lose to another
        # write.
        check_version(call, new, old)
        return new

    entry = await rewrite(call, change, rules)
    return storage.answer(request, entry, 200, call.warnings)


async def _apply(call: WriteCall, rules: UpdateRules) -> Response:
    storage, body = call.storage, call.request.body

    def merged(live: JsonObject | None) -> JsonObject:
        applied, notes = read_configuration(storage.resource, body)
        new = server_side_apply(
            storage.resource,
            live,
            applied,
            call.options.field_manager,
            force=call.options.force,
            subresource=call.info.subresource,
            now=storage.services.now(),
        )
        _judge(call, notes)
        check_name(call, new)
        return adopt(call, new)

    def change(old: JsonObject, entry: Entry) -> JsonObject:
        new = merged(storage.load(entry))
        check_version(call, new, old)
        return new

    # A guarded create waits for its turn. An object that appears meanwhile makes it fail with AlreadyExists; nothing
    # is overwritten.
    if storage.head(call.key) is None and not call.info.subresource:
        new = merged(None)
        if uid := new["metadata"].get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise storage.conflict(call.info.name, why)
        new["metadata"].pop("resourceVersion", None)  # no stored object to compare it with
        entry = await create_object(call, new, applied=True)
        return storage.answer(call.request, entry, 201, call.warnings)
    entry = await rewrite(call, change, rules._replace(applied=True))
    return storage.answer(call.request, entry, 200, call.warnings)


def _judge(call: WriteCall, notes: list[str]) -> None:
    """Reject or warn about duplicate keys in the applied configuration, by field validation mode."""
    # Only one of several equal keys counts: the object would not be the one that its author reads.
    if notes and call.options.field_validation == "Strict":
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {joined(notes)}")
    call.warnings += notes if call.options.field_validation == "Warn" else []
