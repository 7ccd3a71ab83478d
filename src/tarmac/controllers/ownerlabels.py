"""Whose child an object is, by its labels: they stay where an owner reference may be gone.

Somebody who deletes a parent with `--cascade=orphan` has the collector cut its children loose. The parent's controller
still finds them by their labels and takes them down; so it is by labels, too, that it has to hear of them.
"""

from __future__ import annotations

from typing import Any

from tarmac.client.cache import Item
from tarmac.client.controller import KeysOf


def named_by(label: str) -> KeysOf:
    """The key of the object of the same namespace that the label names."""

    def keys(item: Item[Any]) -> tuple[str, ...]:
        name = (item.metadata.labels or {}).get(label)
        return () if name is None else (f"{item.metadata.namespace}/{name}",)

    return keys
