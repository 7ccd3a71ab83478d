"""Keeping an object that is deleted for as long as others use it, by a finalizer."""

from __future__ import annotations

from typing import Any

from tarmac.api.shared import ObjectMeta
from tarmac.client.resources import ResourceClient
from tarmac.controllers.writing import release, set_finalizers


async def hold(resource: ResourceClient[Any], metadata: ObjectMeta, finalizer: str, *, used: bool) -> bool:
    """Put the finalizer on at first sight, take it off once the object goes and is not used; whether either was due."""
    held = finalizer in metadata.finalizers
    if metadata.deletion_timestamp is None:
        if not held:
            await set_finalizers(resource, metadata, [*metadata.finalizers, finalizer])
        return not held
    if not held or used:
        return False
    await release(resource, metadata, finalizer)
    return True
