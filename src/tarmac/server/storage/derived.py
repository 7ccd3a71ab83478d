"""Caches data derived from one version of an object, shared by every list and watch that shows it.

The cache is an attribute of the store's entry, so it lives as long as the entry: until the object is deleted, its
version leaves the history, or the store is reloaded. It needs no lookup, no bound and no eviction.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.server.printing.table import TableRow
from tarmac.store.interface import Entry


class Selected(NamedTuple):
    """The parts of an object that selectors match: labels and selectable fields."""

    labels: dict[str, str]
    fields: dict[str, str]


class DerivedData:
    """Derived data of one entry. Each part is computed on first use."""

    __slots__ = ("metadata_end", "row", "selected")

    def __init__(self) -> None:
        self.selected: Selected | None = None
        self.row: TableRow | None = None
        self.metadata_end = 0  # where in the bytes the metadata ends


def derived(entry: Entry) -> DerivedData:
    """Return the cache of this entry, created on first use."""
    found: DerivedData | None = entry.memo
    if found is None:
        # Core Events and `events.k8s.io` share this entry: each part must be the same in every view of it.
        found = entry.memo = DerivedData()
    return found
