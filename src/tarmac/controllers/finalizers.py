"""Finalizers that delay an object's deletion while other objects use it."""

from __future__ import annotations

from typing import Any

from tarmac.api.shared import ObjectMeta
from tarmac.client.resourceclient import ResourceClient
from tarmac.controllers.writes import release, set_finalizers


async def hold(resource: ResourceClient[Any], metadata: ObjectMeta, finalizer: str, *, used: bool) -> bool:
    """Add the finalizer when missing; remove it once the object is being deleted and unused.

    Return True if it was written.
    """
    held = finalizer in metadata.finalizers
    # Removed before the deletion, it would be missing for a use that begins later.
    if metadata.deletion_timestamp is None:
        if not held:
            await set_finalizers(resource, metadata, [*metadata.finalizers, finalizer])
        return not held
    if not held or used:
        return False
    await release(resource, metadata, finalizer)
    return True
