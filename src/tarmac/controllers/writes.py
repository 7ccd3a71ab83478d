"""Writes shared by controllers: status as a minimal patch, creation, finalizers, and batches of writes.

A status patch contains only the fields that differ and carries the resourceVersion that was read. Two writers of one
status therefore never undo each other, and an unchanged status costs no request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from tarmac.api.declare import encode
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ObjectMeta
from tarmac.api.status import NAMESPACE_TERMINATING, AlreadyExists, Conflict, Forbidden, NotFound
from tarmac.base.clock import Clock
from tarmac.client.envelope import EnvelopeMetadata
from tarmac.client.resourceclient import ResourceClient
from tarmac.client.turns import loop_budget

T = TypeVar("T")
FIRST_BATCH = 8
MAX_BATCH = 256


def difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the merge patch from `old` to `new`; empty when they are equal."""
    patch: JsonObject = {name: None for name in old if name not in new}
    for name, value in new.items():
        known = old.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            if inner := difference(known, value):
                patch[name] = inner
        elif value != known or name not in old:
            patch[name] = value
    return patch


async def write_status(
    resource: ResourceClient[T], metadata: ObjectMeta, old: msgspec.Struct | None, new: msgspec.Struct, manager: str
) -> T | None:
    """Patch the fields that differ.

    Return None when none does. Raises Conflict when the object has changed since it was read.
    """
    if old == new:
        return None
    patch = difference(encode(old) if old is not None else {}, encode(new))
    if not patch:
        return None
    # With the version: the patch was computed from this state, and two controllers may write one status.
    body: JsonObject = {"metadata": {"resourceVersion": metadata.resource_version}, "status": patch}
    return await resource.patch(metadata.name, body, metadata.namespace, subresource="status", manager=manager)


async def create_if_absent(resource: ResourceClient[Any], document: JsonObject, manager: str = "") -> bool:
    """Create an object. Return False when it exists (our cache will show it) or when its namespace is terminating."""
    try:
        await resource.create(document, manager=manager)
    except AlreadyExists:
        return False
    except Forbidden as refusal:
        # The namespace is being emptied: there is nothing to retry.
        if refusal.has_cause(NAMESPACE_TERMINATING):
            return False
        raise
    return True


async def exists(resource: ResourceClient[Any], name: str, namespace: str) -> bool:
    """Ask the server if an object exists, bypassing the cache."""
    try:
        await resource.get(name, namespace)
    except NotFound:
        return False
    return True


async def set_finalizers(resource: ResourceClient[Any], metadata: ObjectMeta, finalizers: Sequence[str]) -> None:
    """Replace the finalizers, conditional on the resourceVersion that was read."""
    body = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": list(finalizers) or None}}
    await resource.patch(metadata.name, body, metadata.namespace)


async def release(resource: ResourceClient[Any], metadata: ObjectMeta, finalizer: str) -> None:
    """Remove one finalizer, conditional on the resourceVersion that was read."""
    await set_finalizers(resource, metadata, [each for each in metadata.finalizers if each != finalizer])


async def delete_same(
    resource: ResourceClient[Any], metadata: ObjectMeta | EnvelopeMetadata, *, grace: int | None = None
) -> None:
    """Delete the object with this uid. If it is already deleted or replaced, do nothing: our cache catches up."""
    with suppress(NotFound, Conflict):
        await resource.delete(metadata.name, metadata.namespace, grace=grace, uid=metadata.uid)


async def in_batches(act: Callable[[T], Awaitable[None]], subjects: Sequence[T], clock: Clock) -> None:
    """Act on all subjects in batches that double in size; the first failure ends it after its batch.

    Writes of one batch run concurrently and share a commit. The first batch is small, so that a write that cannot
    succeed is not tried a thousand times. Each act waits for room in a turn of the event loop: otherwise the work of a
    whole batch before its requests would run in one turn.
    """
    turn = loop_budget(clock)

    async def begin(subject: T) -> None:
        # Before the act, not after: its work up to the first request runs in the turn that is waited for.
        await turn.wait()
        await act(subject)

    size, done = FIRST_BATCH, 0
    while done < len(subjects):
        batch = subjects[done : done + size]
        # All writes of the batch have ended before an error is raised: none may still run while the pass is repeated.
        results = await asyncio.gather(*(begin(subject) for subject in batch), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        # Only the first is raised: the pass is repeated as a whole, and reports the rest then.
        if failures:
            raise failures[0]
        done += len(batch)
        size = min(size * 2, MAX_BATCH)
