"""Finds a child's parent by label: labels remain where an owner reference may be gone.

After a delete with `--cascade=orphan` the garbage collector removes the owner references of the children. The parent's
controller still finds the children by label and deletes them, so it must be notified of them by label too.
"""

from __future__ import annotations

from typing import Any

from tarmac.client.cache import Item
from tarmac.client.controller import KeysOf


def named_by(label: str) -> KeysOf:
    """Index: objects by the key of the object in their namespace that the label names."""

    def keys(item: Item[Any]) -> tuple[str, ...]:
        name = (item.metadata.labels or {}).get(label)
        return () if name is None else (f"{item.metadata.namespace}/{name}",)

    return keys
