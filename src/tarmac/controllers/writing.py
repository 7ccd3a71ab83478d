"""Writes that controllers share: status as a minimal patch, new objects, and many objects at once.

A status patch carries only what differs and is conditional on the version that was looked at, so two writers of one
status never undo each other and an unchanged status costs nothing.
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
from tarmac.client.envelope import Metadata
from tarmac.client.resources import ResourceClient

T = TypeVar("T")
FIRST_BATCH = 8
LARGEST_BATCH = 256


def difference(old: JsonObject, new: JsonObject) -> JsonObject:
    """The merge patch from one object to the other; empty when they are equal."""
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
    """Write what differs; None when nothing does. Raises Conflict when the object has changed since it was read."""
    if old == new:
        return None
    patch = difference(encode(old) if old is not None else {}, encode(new))
    if not patch:
        return None
    body: JsonObject = {"metadata": {"resourceVersion": metadata.resource_version}, "status": patch}
    return await resource.patch(metadata.name, body, metadata.namespace, subresource="status", manager=manager)


async def create_if_absent(resource: ResourceClient[Any], document: JsonObject, manager: str = "") -> bool:
    """Create an object; False when one is there, which our copy will show, or when its namespace is on its way out."""
    try:
        await resource.create(document, manager=manager)
    except AlreadyExists:
        return False
    except Forbidden as refusal:
        if refusal.has_cause(NAMESPACE_TERMINATING):
            return False
        raise
    return True


async def exists(resource: ResourceClient[Any], name: str, namespace: str) -> bool:
    """Whether an object is there now, whatever our copy says."""
    try:
        await resource.get(name, namespace)
    except NotFound:
        return False
    return True


async def set_finalizers(resource: ResourceClient[Any], metadata: ObjectMeta, finalizers: Sequence[str]) -> None:
    """Replace the finalizers of the version that was looked at."""
    body = {"metadata": {"resourceVersion": metadata.resource_version, "finalizers": list(finalizers) or None}}
    await resource.patch(metadata.name, body, metadata.namespace)


async def release(resource: ResourceClient[Any], metadata: ObjectMeta, finalizer: str) -> None:
    """Take one finalizer off the version that was looked at."""
    await set_finalizers(resource, metadata, [each for each in metadata.finalizers if each != finalizer])


async def delete_same(
    resource: ResourceClient[Any], metadata: ObjectMeta | Metadata, *, grace: int | None = None
) -> None:
    """Delete this very object. One that is gone, or whose name another has by now, is what our copy will show soon."""
    with suppress(NotFound, Conflict):
        await resource.delete(metadata.name, metadata.namespace, grace=grace, uid=metadata.uid)


async def in_batches(act: Callable[[T], Awaitable[None]], subjects: Sequence[T]) -> None:
    """Act on each, in ever larger batches, each batch at once; the first failure ends it after its batch.

    Writes of one batch share a commit. Starting small keeps a write that cannot succeed from being tried a thousand
    times.
    """
    size, done = FIRST_BATCH, 0
    while done < len(subjects):
        batch = subjects[done : done + size]
        results = await asyncio.gather(*(act(subject) for subject in batch), return_exceptions=True)
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            raise failures[0]
        done += len(batch)
        size = min(size * 2, LARGEST_BATCH)
